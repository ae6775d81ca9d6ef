"""Lists of classes: names, colors, and values to ignore."""

import numpy as np
import pytest

from spectral_vmamba.data.readers.folder import FileStorage
from spectral_vmamba.segmentation.class_list import find_classes, list_classes, read_class_file
from spectral_vmamba.segmentation.mask_decoding import IGNORE_INDEX, MaskCoding
from spectral_vmamba.segmentation.masked_dataset import StoredMasks, default_palette
from tests.support.masked_folders import write_image


def read(tmp_path, text: str):
    (tmp_path / "classes.txt").write_text(text, encoding="utf-8")
    return read_class_file(tmp_path / "classes.txt")


def test_names_without_colors(tmp_path):
    classes = read(tmp_path, "\ufeffsky\n\n traffic light \nÄste\n")
    assert classes.classes == ("sky", "traffic light", "Äste")
    assert classes.palette == default_palette(3)
    assert classes.coding == MaskCoding()


def test_names_with_colors(tmp_path):
    classes = read(tmp_path, "sky 70 130 180\ntraffic light\t250 170   30\n")
    assert classes.classes == ("sky", "traffic light")
    assert classes.palette == ((70, 130, 180), (250, 170, 30))
    assert classes.coding.colors == {(70, 130, 180): 0, (250, 170, 30): 1}


@pytest.mark.parametrize("void", ["void", "Ignore", "unlabeled"])
def test_void_is_not_a_class(tmp_path, void):
    classes = read(tmp_path, f"sky 1 1 1\n{void} 2 2 2\nroad 3 3 3\n")
    assert classes.classes == ("sky", "road")
    assert classes.palette == ((1, 1, 1), (3, 3, 3))
    assert classes.coding.ids == {0: 0, 1: IGNORE_INDEX, 2: 1}
    assert classes.coding.colors == {(1, 1, 1): 0, (2, 2, 2): IGNORE_INDEX, (3, 3, 3): 1}


def test_values_to_ignore_need_no_name():
    classes = list_classes(["a", "b"], ignored=[7])
    assert classes.classes == ("a", "b")
    assert classes.coding.ids == {0: 0, 1: 1, 7: IGNORE_INDEX}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n", "lists no classes"),
        ("sky 1 2 3\nroad\n", "no color for 'road'; expected colors for all classes or for none"),
        ("sky 1 2 300\n", r"0 0 0 to 255 255 255 for 'sky', got \(1, 2, 300\)"),
        ("sky 1 2 3\nroad 1 2 3\n", r"the color \(1, 2, 3\) of 'sky' is also that of another class"),
    ],
)
def test_wrong_lists_explain_what_is_wrong(tmp_path, text, message):
    with pytest.raises(ValueError, match=rf"classes\.txt.*{message}"):
        read(tmp_path, text)


def stored_masks(tmp_path, *masks) -> StoredMasks:
    paths = [str(tmp_path / f"{i}.png") for i in range(len(masks))]
    for i, mask in enumerate(masks):
        write_image(tmp_path / f"{i}.png", np.array(mask, np.uint8))
    return StoredMasks(FileStorage(paths), paths, MaskCoding())


def test_classes_are_found_by_the_largest_id(tmp_path):
    masks = stored_masks(tmp_path, [[0, 255]], [[3, 1]], [[255, 255]])
    assert find_classes(masks, 3).classes == ("class 0", "class 1", "class 2", "class 3")
    assert find_classes(masks, 3, ignored=[3]).classes == ("class 0", "class 1", "class 2")
    (tmp_path / "1.png").write_bytes(b"damaged")
    assert find_classes(masks, 3).classes == ("class 0",), "unreadable masks are left out"


def test_the_error_is_raised_if_no_mask_is_readable(tmp_path):
    masks = stored_masks(tmp_path, np.zeros((2, 2, 3)), np.zeros((2, 2, 3)))
    with pytest.raises(ValueError, match=r"0\.png is an RGB mask"):
        find_classes(masks, 2)
