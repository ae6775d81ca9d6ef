"""From the name of a source to its images with masks."""

import numpy as np
import pytest

from spectral_vmamba.data.dataset import UNLABELED
from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.segmentation.masked_dataset import default_palette
from spectral_vmamba.segmentation.readers import MaskedSplit, read_masked_source, read_masked_split
from tests.support.masked_folders import (
    encode,
    random_image,
    random_mask,
    shared_pack,
    write_image,
    write_pack,
    write_pairs,
)


def split(data, val_data=None, val_fraction=0.2, seed=0, test_fraction=0.0) -> MaskedSplit:
    return read_masked_split(DataSplit(str(data), val_data and str(val_data), val_fraction, seed, test_fraction))


def write_splits(folder, *names, classes=3):
    for name in names:
        write_pairs(folder / "images" / name, folder / "masks" / name, classes=classes)


def test_a_folder_without_splits_is_one_dataset(tmp_path):
    write_pairs(tmp_path / "images", tmp_path / "masks", classes=4)
    (dataset,) = read_masked_source(str(tmp_path)).values()
    assert dataset.classes == ("class 0", "class 1", "class 2", "class 3")
    assert dataset.palette == default_palette(4)
    assert (dataset.images.labels.tolist(), dataset.images.classes) == ([UNLABELED] * 3, ())
    assert dataset.images.root == str(tmp_path)


def test_parts_of_a_folder_share_the_largest_id(tmp_path):
    write_splits(tmp_path, "train", "val", "test")
    write_image(tmp_path / "masks" / "test" / "a.png", random_mask(0, classes=6))
    parts = read_masked_source(str(tmp_path))
    assert {name: len(part) for name, part in parts.items()} == {"train": 3, "val": 3, "test": 3}
    assert len(parts["train"].classes) == 6
    assert parts["train"].names[0] == "images/train/a.png"


def test_test_without_val_is_the_validation_part(tmp_path):
    write_splits(tmp_path, "train", "test")
    assert {*read_masked_source(str(tmp_path))} == {"train", "val"}


def test_colors_of_the_class_file_decode_masks(tmp_path):
    write_image(tmp_path / "images" / "a.png", random_image(0, 2, 1))
    write_image(tmp_path / "masks" / "a.png", np.array([[(9, 0, 0), (0, 9, 0)]], np.uint8))
    with pytest.raises(ValueError, match=r"a\.png is an RGB mask"):
        read_masked_source(str(tmp_path))
    (tmp_path / "classes.txt").write_text("x 0 9 0\ny 9 0 0\n")
    dataset = read_masked_source(str(tmp_path))["all"]
    assert (dataset.classes, dataset.palette) == (("x", "y"), ((0, 9, 0), (9, 0, 0)))
    assert dataset.open(0)[1].tolist() == [[1, 0]]


def test_tables(tmp_path):
    write_pairs(tmp_path / "i", tmp_path / "m")
    rows = ["i/a.png,m/a.png,train", "i/b.png, m/b.png ,val", "i/c.png,m/c.png,train"]
    (tmp_path / "t.csv").write_text("\n".join(["image,mask,split", *rows]))
    (tmp_path / "classes.txt").write_text("x\ny\nz\n")
    parts = read_masked_source(str(tmp_path / "t.csv"))
    assert (list(parts["train"].names), list(parts["val"].names)) == (["i/a.png", "i/c.png"], ["i/b.png"])
    assert parts["val"].classes == ("x", "y", "z")
    assert np.array_equal(parts["val"].open(0)[1], random_mask(1))
    (tmp_path / "t.csv").write_text("image,mask\ni/a.png,m/lost.png\n")
    with pytest.raises(ValueError, match=r"no image file at .*m/lost\.png"):
        read_masked_source(str(tmp_path / "t.csv"))["all"].open(0)


def test_packs(tmp_path):
    images, masks = ([encode(make(i)) for i in range(3)] for make in (random_image, random_mask))
    splits = np.array(["train", "val", "train"])
    write_pack(tmp_path / "p.npz", images, masks, split=splits, classes=np.array(["a", "b", "void"]))
    parts = read_masked_source(str(tmp_path / "p.npz"))
    assert list(parts["train"].names) == ["p#0", "p#2"]
    assert parts["val"].classes == ("a", "b")
    image, mask = parts["val"].open(0)
    assert np.array_equal(np.asarray(image), np.asarray(random_image(1)))
    assert np.array_equal(mask, np.where(random_mask(1) == 2, 255, random_mask(1)))


def test_packs_without_names_may_list_values_to_ignore(tmp_path):
    write_pack(tmp_path / "p.npz", [encode(random_image(0))], [encode(random_mask(0, 4))], ignore=np.array([0]))
    dataset = read_masked_source(str(tmp_path / "p.npz"))["all"]
    assert dataset.classes == ("class 1", "class 2", "class 3")
    assert np.array_equal(dataset.open(0)[1], np.where(random_mask(0, 4) == 0, 255, random_mask(0, 4) - 1))


def test_damaged_packs_are_named(tmp_path):
    write_pack(tmp_path / "p.npz", [encode(random_image(0))], [b"damaged"], classes=np.array(["a", "b"]))
    with pytest.raises(ValueError, match="the mask of p#0 cannot be read as an image"):
        read_masked_source(str(tmp_path / "p.npz"))["all"].open(0)
    write_pack(tmp_path / "p.npz", [encode(random_image(0))] * 2, [encode(random_mask(0))])
    with pytest.raises(ValueError, match=r"p\.npz .* expected offset to hold 2 ascending positions"):
        read_masked_source(str(tmp_path / "p.npz"))
    np.savez(tmp_path / "p.npz", data=np.zeros(3, np.uint8), offset=[0, 3])
    with pytest.raises(ValueError, match=r"p\.npz .* got no mask_data, mask_offset"):
        read_masked_source(str(tmp_path / "p.npz"))


def test_camvid():
    parts = read_masked_source(str(shared_pack("camvid_180x240.npz")))
    assert {name: len(part) for name, part in parts.items()} == {"train": 367, "val": 101, "test": 233}
    assert len(parts["train"].classes) == 11
    assert "void" not in parts["train"].classes
    image, mask = parts["test"].open(0)
    assert (image.size, mask.shape) == ((240, 180), (180, 240))
    assert {*np.unique(mask)} <= {*range(11), 255}
    assert (mask == 255).any()


def test_white_blood_cells():
    parts = read_masked_source(str(shared_pack("wbc_seg_120.npz")))
    assert {name: len(part) for name, part in parts.items()} == {"train": 300, "val": 100}
    assert parts["val"].classes == ("background", "cytoplasm", "nucleus")
    for i in range(100):
        assert {*np.unique(parts["val"].open(i)[1])} <= {0, 1, 2, 255}


@pytest.mark.parametrize(("name", "error"), [("no-such-folder", FileNotFoundError), ("empty", ValueError)])
def test_other_folders_are_answered_with_the_layouts(tmp_path, name, error):
    (tmp_path / "empty").mkdir()
    with pytest.raises(error, match=r"(?s)these layouts:.*images/ and masks/.*ADE20K.*Cityscapes"):
        read_masked_source(str(tmp_path / name))


def test_other_files_are_rejected(tmp_path):
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(ValueError, match=r"expected a folder, a \.csv or a \.npz, got .*x\.txt"):
        read_masked_source(str(tmp_path / "x.txt"))


def test_data_without_parts_is_split_by_seeded_fractions(tmp_path):
    write_pairs(tmp_path / "images", tmp_path / "masks", [f"{i:02d}" for i in range(20)])
    train, val, test = split(tmp_path, val_fraction=0.2, test_fraction=0.3)
    assert test is not None
    assert (len(train), len(val), len(test)) == (10, 4, 6)
    assert {*train.names, *val.names, *test.names} == {f"images/{i:02d}.png" for i in range(20)}
    without_test = split(tmp_path, val_fraction=0.2)
    assert (without_test.val.names, without_test.test, len(without_test.train)) == (val.names, None, 16)
    assert split(tmp_path, seed=1).val.names != val.names


def test_fractions_that_leave_nothing_are_rejected(tmp_path):
    write_pairs(tmp_path / "images", tmp_path / "masks", ["a"])
    with pytest.raises(ValueError, match="expected at least 2 images to split, got 1"):
        split(tmp_path)
    with pytest.raises(ValueError, match=r"with a sum below 1, got 0\.5, 0\.5"):
        split(tmp_path, val_fraction=0.5, test_fraction=0.5)


def test_parts_of_the_data_are_kept(tmp_path):
    write_splits(tmp_path, "train", "val", "test")
    train, val, test = split(tmp_path)
    assert test is not None
    assert [part.names[0] for part in (train, val, test)] == [f"images/{p}/a.png" for p in ("train", "val", "test")]
    with pytest.raises(ValueError, match=r"has test images of its own; expected test_fraction 0, got 0\.5"):
        split(tmp_path, test_fraction=0.5)


def test_test_images_are_taken_from_the_training_part(tmp_path):
    write_splits(tmp_path, "train", "val")
    train, val, test = split(tmp_path, test_fraction=0.3)
    assert test is not None
    assert (len(train), len(val), len(test)) == (2, 3, 1)


def test_other_validation_data_must_have_the_same_classes(tmp_path):
    for name, classes in (("data", 3), ("fewer", 2), ("more", 4)):
        write_pairs(tmp_path / name / "images", tmp_path / name / "masks", classes=classes)
    train, val, _ = split(tmp_path / "data", tmp_path / "fewer")
    assert (len(train), len(val), val.classes) == (3, 3, train.classes)
    with pytest.raises(ValueError, match=r"more does not match .*data: expected the classes 'class 0', .* 'class 3'"):
        split(tmp_path / "data", tmp_path / "more")
    (tmp_path / "data" / "classes.txt").write_text("x\ny\nz\n")
    assert split(tmp_path / "data", tmp_path / "fewer").val.classes == ("x", "y", "z")
    (tmp_path / "fewer" / "classes.txt").write_text("x\ny\n")
    with pytest.raises(ValueError, match="expected the classes 'x', 'y', 'z', got 'x', 'y'"):
        split(tmp_path / "data", tmp_path / "fewer")


def test_one_class_is_not_enough(tmp_path):
    write_pairs(tmp_path / "images", tmp_path / "masks", classes=1)
    with pytest.raises(ValueError, match=r"at least two classes in .*, got 1 class; for masks of 0 and 255"):
        split(tmp_path)
    for name in "abc":
        write_image(tmp_path / "masks" / f"{name}.png", 255 * random_mask(0, 2))
    (tmp_path / "classes.txt").write_text("background 0 0 0\nobject 255 255 255\n")
    assert np.array_equal(split(tmp_path).val.open(0)[1], random_mask(0, 2)), "as the message says"


def test_stray_values_are_not_counted_as_classes(tmp_path):
    write_pairs(tmp_path / "images", tmp_path / "masks")
    write_image(tmp_path / "masks" / "b.png", np.full((10, 12), 200, np.uint8))
    with pytest.raises(ValueError, match=r"values 0, 1, 2, 200, most ids below 200 never occur; list the classes"):
        read_masked_source(str(tmp_path))
