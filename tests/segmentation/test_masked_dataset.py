"""Images with masks that match, or errors that say why not."""

import pickle
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.segmentation.masked_dataset import MaskedDataset, MaskStorage, _to_lab, default_palette
from spectral_vmamba.segmentation.readers import read_masked_source
from tests.support.image_folders import gray_image
from tests.support.masked_folders import encode, random_image, random_mask, read_folder, write_image


@pytest.fixture
def dataset(tmp_path) -> MaskedDataset:
    return read_folder(tmp_path)


def open_single(folder, image: Image.Image, mask, classes: str = "a\nb\nc\n"):
    write_image(folder / "images" / "x.png", image)
    write_image(folder / "masks" / "x.png", mask)
    (folder / "classes.txt").write_text(classes)
    return read_masked_source(str(folder))["all"].open(0)


def test_pairs_are_opened_in_any_process(dataset):
    again = pickle.loads(pickle.dumps(dataset))
    assert isinstance(again.masks, MaskStorage)
    for i in range(3):
        image, mask = again.open(i)
        assert np.array_equal(np.asarray(image), np.asarray(random_image(i)))
        assert np.array_equal(mask, random_mask(i))
    assert (len(again), list(again.names)) == (3, ["images/00.png", "images/01.png", "images/02.png"])


def test_subsets_keep_pairs_together(dataset):
    subset = dataset.subset(np.array([2, 0])).subset(np.array([1, 0]))
    assert list(subset.names) == ["images/00.png", "images/02.png"]
    assert np.array_equal(subset.open(1)[1], random_mask(2))
    assert subset.mask_stamps == [dataset.mask_stamps[0], dataset.mask_stamps[2]]


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA"])
def test_images_of_any_mode_are_rgb(tmp_path, mode):
    image, _ = open_single(tmp_path, gray_image(7).convert(mode), np.zeros((8, 8), np.uint8))
    assert image.mode == "RGB"
    assert (np.asarray(image) == 7).all()


def test_a_mask_of_ignored_pixels_is_valid(tmp_path):
    _, mask = open_single(tmp_path, gray_image(7), np.full((8, 8), 255, np.uint8))
    assert (mask == 255).all()


def test_a_mask_of_another_size_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"mask of images/x\.png has 8×7 pixels and the image 8×8"):
        open_single(tmp_path, gray_image(7), np.zeros((7, 8), np.uint8))


def test_a_class_id_without_a_class_is_an_error(tmp_path):
    message = r"mask of images/x\.png has the class id 3; expected 0 to 2 for 3 classes, or 255 for pixels to ignore"
    with pytest.raises(ValueError, match=message):
        open_single(tmp_path, gray_image(7), np.full((8, 8), 3, np.uint8))


def test_the_orientation_of_the_image_is_applied_before_sizes_are_compared(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "x.jpg").write_bytes(encode(random_image(0, 12, 10), "JPEG", exif=exif))
    write_image(tmp_path / "masks" / "x.png", random_mask(0, 3, 10, 12))
    image, mask = read_masked_source(str(tmp_path))["all"].open(0)
    assert image.size == (10, 12) == mask.shape[::-1]


@pytest.mark.parametrize("folder", ["images", "masks"])
def test_an_unreadable_file_is_named(tmp_path, dataset, folder):
    (tmp_path / folder / "01.png").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=rf"{folder}/01\.png cannot be read"):
        dataset.open(1)
    (tmp_path / folder / "01.png").unlink()
    with pytest.raises(ValueError, match=rf"no image file at .*{folder}/01\.png"):
        dataset.open(1)


def test_the_fingerprint_changes_with_masks_classes_and_order(tmp_path, dataset):
    write_image(tmp_path / "masks" / "00.png", np.zeros((10, 12), np.uint8))
    changed_mask = read_masked_source(str(tmp_path))["all"]
    (tmp_path / "classes.txt").write_text("x\ny\nz\n")
    renamed = read_masked_source(str(tmp_path))["all"]
    (tmp_path / "classes.txt").write_text("void\nx\ny\nz\n")
    shifted = read_masked_source(str(tmp_path))["all"]
    others = [changed_mask, renamed, shifted, dataset.subset(np.array([0, 2, 1])), replace(dataset, ignore_index=9)]
    assert shifted.classes == renamed.classes
    assert len({other.fingerprint() for other in (dataset, *others)}) == 6
    assert dataset.subset(np.arange(3)).fingerprint() == dataset.fingerprint()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ignore_index": 2}, "ignore_index from the number of classes to 255, got 2 with 3 classes"),
        ({"ignore_index": 256}, "got 256 with 3 classes"),
        ({"classes": ("a", "b", "a")}, "got 'a' twice"),
        ({"palette": ()}, "a color for each of 3 classes, got 0"),
        ({"mask_stamps": [1, 2]}, "as many masks as images, got 2 and 3"),
    ],
)
def test_inconsistent_datasets_are_rejected(dataset, changes, message):
    with pytest.raises(ValueError, match=message):
        replace(dataset, **changes)


@pytest.mark.parametrize(("count", "distance"), [(12, 40), (32, 25), (150, 10)])
def test_colors_of_the_default_palette_are_far_apart(count, distance):
    """In CIELAB, where 2.3 is a just noticeable difference; also from black and white."""
    colors = _to_lab(np.array([*default_palette(count), (0, 0, 0), (255, 255, 255)]))
    assert min(np.linalg.norm(a - b) for a, b in combinations(colors, 2)) > distance


def test_the_default_palette_begins_alike_for_any_count():
    assert default_palette(20)[:7] == default_palette(7)
    assert (default_palette(0), len(default_palette(255))) == ((), 255)


def test_cielab_of_known_colors():
    """Values of the CIE for sRGB primaries, D65."""
    colors = _to_lab(np.array([(255, 255, 255), (255, 0, 0), (0, 0, 255)]))
    assert np.allclose(colors, [(100, 0, 0), (53.24, 80.09, 67.20), (32.30, 79.19, -107.86)], atol=0.05)
