"""A random part of a dataset as a pack."""

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.data.sources import read_source
from spectral_vmamba.data.subsets import write_subset


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


def test_images_of_several_sizes_are_refused(tmp_path):
    write_images(tmp_path / "images", 4)
    Image.new("RGB", (9, 8)).save(tmp_path / "images" / "train" / "class0" / "other.png")
    with pytest.raises(ValueError, match="images of one size"):
        write_subset(tmp_path, str(tmp_path / "images"), None, None, 2)
