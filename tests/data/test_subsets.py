"""A random part of a dataset as a pack."""

import io

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.data.sources import DataSplit, read_source
from spectral_vmamba.data.subsets import choose_images, write_subset


def write_images(folder, count, size=(8, 8)):
    for part in ("train", "val"):
        for i in range(count):
            path = folder / part / f"class{i % 2}" / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((*size, 3), i, np.uint8)).save(path)


def test_the_same_images_every_time(tmp_path):
    write_images(tmp_path / "images", 12)
    first, second = (tmp_path / name for name in ("first", "second"))
    paths = []
    for folder in (first, second):
        folder.mkdir()
        paths.append(write_subset(folder, str(tmp_path / "images"), None, 4, 3))
    assert paths[0].name == paths[1].name
    packs = [read_source(str(path)) for path in paths]
    assert [len(packs[0][part]) for part in ("train", "val")] == [4, 3]
    for part in ("train", "val"):
        pixels = [[np.asarray(pack[part].open(i))[0, 0, 0] for i in range(len(pack[part]))] for pack in packs]
        assert pixels[0] == pixels[1]
        assert len(set(pixels[0])) == len(pixels[0])
        assert [pixel % 2 for pixel in pixels[0]] == packs[0][part].labels.tolist()


def test_other_images_are_another_pack(tmp_path):
    names = set()
    for count in (6, 8):
        write_images(tmp_path / "images", count)
        names.add(write_subset(tmp_path, str(tmp_path / "images"), None, 4, None).name)
    assert len(names) == 2


def test_an_existing_pack_is_kept(tmp_path):
    write_images(tmp_path / "images", 6)
    path = write_subset(tmp_path, str(tmp_path / "images"), None, 4, None)
    before = path.stat().st_mtime_ns
    assert write_subset(tmp_path, str(tmp_path / "images"), None, 4, None) == path
    assert path.stat().st_mtime_ns == before


def test_images_of_several_sizes_are_listed_by_their_files(tmp_path):
    write_images(tmp_path / "images", 4)
    Image.new("RGB", (9, 8)).save(tmp_path / "images" / "train" / "class0" / "other.png")
    path = write_subset(tmp_path, str(tmp_path / "images"), None, None, 2)
    assert path.suffix == ".csv"
    subset = read_source(str(path))
    assert sorted(subset["train"].open(i).size for i in range(5)) == [(8, 8)] * 4 + [(9, 8)]
    assert subset["train"].classes == ("class0", "class1")


def test_pixels_are_copied_without_loss_and_with_the_names_of_classes(tmp_path):
    path = write_subset(tmp_path, "digits", None, 30, 20)
    assert path.suffix == ".npz"
    subset, digits = read_source(str(path)), DataSplit("digits", None, 0.2, 0).read().train
    chosen = choose_images(digits, 30)
    assert subset["train"].classes == digits.classes
    assert subset["train"].labels.tolist() == digits.labels[chosen].tolist()
    for i, source in enumerate(chosen):
        assert np.array_equal(subset["train"].open(i), digits.open(int(source)))


def test_image_files_in_a_pack_are_copied_as_they_are(tmp_path):
    files = []
    for i in range(6):
        buffer = io.BytesIO()
        Image.new("RGB", (8 + i, 8), (40 * i, 0, 0)).save(buffer, "jpeg")
        files.append(buffer.getvalue())
    arrays = {"data": np.frombuffer(b"".join(files), np.uint8), "offset": np.cumsum([0, *map(len, files)])}
    split = ["train", "val"] * 3
    np.savez(tmp_path / "pack.npz", **arrays, label=[0, 0, 1, 1, 0, 0], classes=["cat", "dog"], split=split)
    train = read_source(str(write_subset(tmp_path, str(tmp_path / "pack.npz"), None, 2, None)))["train"]
    assert {train.storage.content(i) for i in range(2)} <= set(files)
    assert train.classes == ("cat", "dog")


def test_every_class_has_an_image():
    digits = read_source("digits")["all"]
    for count in (10, 11, 400):
        assert len(np.unique(digits.labels[choose_images(digits, count)])) == 10
    with pytest.raises(ValueError, match="at least one of each of the 10 classes, got 9"):
        choose_images(digits, 9)


def test_test_images_are_those_of_the_data(tmp_path):
    write_images(tmp_path / "images", 6)
    path = tmp_path / "images" / "test" / "class1" / "0.png"
    path.parent.mkdir(parents=True)
    Image.new("RGB", (8, 8), (200, 0, 0)).save(path)
    test = read_source(str(write_subset(tmp_path, str(tmp_path / "images"), None, 4, None)))["val"]
    assert len(test) == 1
    assert test.open(0).getpixel((0, 0)) == (200, 0, 0)
