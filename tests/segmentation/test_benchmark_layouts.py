"""The folders of ADE20K and Cityscapes."""

import numpy as np
import pytest

from spectral_vmamba.segmentation.readers import read_masked_source
from tests.support.masked_folders import random_image, write_image, write_pairs

# Label id and training id of every label of Cityscapes with an id, as its authors list them.
CITYSCAPES = {
    **dict.fromkeys(range(34), 255),
    **{7: 0, 8: 1, 11: 2, 12: 3, 13: 4, 17: 5, 19: 6, 20: 7, 21: 8, 22: 9, 23: 10},
    **{24: 11, 25: 12, 26: 13, 27: 14, 28: 15, 31: 16, 32: 17, 33: 18},
}


def write_ade20k(folder):
    values = np.arange(256, dtype=np.uint8).reshape(16, 16).clip(max=150)
    for i, part in enumerate(("training", "validation")):
        write_image(folder / "images" / part / f"ADE_{i}.jpg", random_image(i, 16, 16))
        write_image(folder / "annotations" / part / f"ADE_{i}.png", values)
    return values


def test_ade20k(tmp_path):
    values = write_ade20k(tmp_path)
    parts = read_masked_source(str(tmp_path))
    assert [len(parts[name]) for name in ("train", "val")] == [1, 1]
    _, mask = parts["train"].open(0)
    assert np.array_equal(mask, np.where(values == 0, 255, values.astype(int) - 1))
    assert parts["val"].classes[:2] == ("class 0", "class 1")
    assert len(parts["val"].classes) == len(set(parts["val"].palette)) == 150


def test_names_of_ade20k(tmp_path):
    write_ade20k(tmp_path)
    rows = [f"{i}\t0.1\t1\t1\tname {i}, other name" for i in range(1, 151)]
    (tmp_path / "objectInfo150.txt").write_text("\n".join(["Idx\tRatio\tTrain\tVal\tName", *rows]))
    assert read_masked_source(str(tmp_path))["val"].classes[0::149] == ("name 1", "name 150")
    (tmp_path / "objectInfo150.txt").write_text("\n".join(["Idx\tRatio\tTrain\tVal\tName", *rows[1:]]))
    with pytest.raises(ValueError, match=r"expected 150 rows with a column Name in .*objectInfo150\.txt, got 149"):
        read_masked_source(str(tmp_path))


def test_a_value_above_150_is_an_error_in_ade20k(tmp_path):
    write_ade20k(tmp_path)
    write_image(tmp_path / "annotations" / "training" / "ADE_0.png", np.full((16, 16), 151, np.uint8))
    with pytest.raises(ValueError, match=r"ADE_0\.png has the value 151"):
        read_masked_source(str(tmp_path))["train"].open(0)


def write_cityscapes(folder, ids: str, values: np.ndarray):
    height, width = values.shape
    for split in ("train", "val", "test"):
        stem = f"{split}town/{split}town_000000_000019"
        write_image(folder / "leftImg8bit" / split / f"{stem}_leftImg8bit.png", random_image(0, width, height))
        if split != "test":
            write_image(folder / "gtFine" / split / f"{stem}_gtFine_{ids}.png", values)
            write_image(folder / "gtFine" / split / f"{stem}_gtFine_instanceIds.png", values)
            (folder / "gtFine" / split / f"{stem}_gtFine_polygons.json").write_text("{}")


def test_cityscapes(tmp_path):
    values = np.arange(34, dtype=np.uint8).reshape(2, 17)
    write_cityscapes(tmp_path, "labelIds", values)
    parts = read_masked_source(str(tmp_path))
    assert {*parts} == {"train", "val"}
    _, mask = parts["train"].open(0)
    assert mask.tolist() == [[CITYSCAPES[value] for value in row] for row in values.tolist()]
    assert list(parts["val"].names) == ["leftImg8bit/val/valtown/valtown_000000_000019_leftImg8bit.png"]
    named = dict(zip(parts["val"].classes, parts["val"].palette, strict=True))
    assert len(named) == 19
    assert (named["road"], named["car"], named["bicycle"]) == ((128, 64, 128), (0, 0, 142), (119, 11, 32))
    assert parts["val"].classes.index("car") == CITYSCAPES[26]


def test_training_ids_of_cityscapes(tmp_path):
    values = np.array([[*range(19), 255]], np.uint8)
    write_cityscapes(tmp_path, "labelTrainIds", values)
    _, mask = read_masked_source(str(tmp_path))["val"].open(0)
    assert np.array_equal(mask, values)


def test_missing_masks_of_cityscapes_are_named(tmp_path):
    write_cityscapes(tmp_path, "labelIds", np.zeros((2, 2), np.uint8))
    next((tmp_path / "gtFine" / "val").rglob("*labelIds.png")).unlink()
    with pytest.raises(ValueError, match=r"1 image in .*leftImg8bit/val without a mask in .*gtFine/val: valtown/"):
        read_masked_source(str(tmp_path))


def test_images_and_masks_are_not_ade20k(tmp_path):
    write_pairs(tmp_path / "images" / "training", tmp_path / "masks" / "training")
    write_pairs(tmp_path / "images" / "validation", tmp_path / "masks" / "validation")
    assert len(read_masked_source(str(tmp_path))["train"].classes) == 3
