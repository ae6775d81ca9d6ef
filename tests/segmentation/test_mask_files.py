"""Masks are complete PNG files with the colors of the classes, or absent."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from spectral_vmamba.segmentation.georeference import Georeference
from spectral_vmamba.segmentation.mask_files import write_geotiff_mask, write_png_mask

PALETTE = ((0, 0, 0), (255, 128, 3), (9, 200, 77), (1, 2, 3))


def random_mask(height, width, classes=4):
    return np.random.default_rng(0).integers(0, classes, (height, width), np.uint8)


def write(path, mask, rows=7, palette=PALETTE):
    with write_png_mask(path, *mask.shape, palette) as append:
        for top in range(0, len(mask), rows):
            append(mask[top : top + rows])


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 41))
def test_pillow_reads_the_ids_and_colors_back(tmp_path_factory, height, width, rows):
    path, mask = tmp_path_factory.mktemp("mask") / "a.png", random_mask(height, width)
    write(path, mask, rows)
    with Image.open(path) as image:
        image.verify()
    with Image.open(path) as image:
        assert image.mode == "P"
        assert (np.asarray(image) == mask).all()
        assert image.getpalette()[: 3 * len(PALETTE)] == [value for color in PALETTE for value in color]
        assert (np.asarray(image.convert("RGB")) == np.array(PALETTE, np.uint8)[mask]).all()


def test_256_classes_and_many_chunks(tmp_path):
    mask = random_mask(700, 900, 256)
    write(tmp_path / "a.png", mask, palette=[(i, 255 - i, i // 2) for i in range(256)])
    content = (tmp_path / "a.png").read_bytes()
    assert content.count(b"IDAT") > 5
    with Image.open(tmp_path / "a.png") as image:
        assert (np.asarray(image) == mask).all()


def test_uniform_masks_are_small(tmp_path):
    write(tmp_path / "a.png", np.ones((2000, 2000), np.uint8), rows=64)
    assert (tmp_path / "a.png").stat().st_size < 10_000


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((3, 5), np.uint8), "3 of 4 rows of .*a.png were written"),
        (np.zeros((5, 5), np.uint8), "more rows than the 4"),
        (np.zeros((4, 6), np.uint8), r"expected rows \(n, 5\) of uint8"),
        (np.zeros((4, 5), np.int64), r"expected rows \(n, 5\) of uint8"),
        (np.full((4, 5), 4, np.uint8), "class id 4 for .* has no color; there are 4"),
    ],
)
def test_wrong_rows_leave_the_previous_file(tmp_path, rows, message):
    (tmp_path / "a.png").write_text("previous")

    def fail():
        with write_png_mask(tmp_path / "a.png", 4, 5, PALETTE) as append:
            append(rows)

    with pytest.raises(ValueError, match=message):
        fail()
    assert os.listdir(tmp_path) == ["a.png"]
    assert (tmp_path / "a.png").read_text() == "previous"


@pytest.mark.parametrize("palette", [[], [(0, 0, 0)] * 257, [(0, 0, 256)], [(0, 0)]])
def test_impossible_palettes_are_refused(tmp_path, palette):
    with pytest.raises(ValueError, match="expected"), write_png_mask(tmp_path / "a.png", 1, 1, palette):
        pass
    assert os.listdir(tmp_path) == []


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from spectral_vmamba.segmentation.mask_files import write_png_mask
with write_png_mask(Path(sys.argv[1]), 4000, 1000, [(0, 0, 0)] * 256) as append:
    append(np.random.default_rng(0).integers(0, 256, (2000, 1000), np.uint8))
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.full
@pytest.mark.parametrize("previous", [True, False])
def test_a_kill_leaves_no_partial_file(tmp_path, previous):
    path = tmp_path / "a.png"
    if previous:
        path.write_text("previous")
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)])
    assert done.returncode == -signal.SIGKILL
    (partial,) = tmp_path.glob(".*.tmp")
    assert partial.stat().st_size > 1_000_000
    assert path.exists() == previous
    assert not previous or path.read_text() == "previous"


def test_geotiff_masks_keep_the_georeference_and_the_colors(tmp_path):
    rasterio = pytest.importorskip("rasterio", reason="needs rasterio")
    mask = random_mask(50, 30)
    place = Georeference((0.5, 0.0, 400000.0, 0.0, -0.5, 5000000.0), "EPSG:32633")
    with write_geotiff_mask(tmp_path / "a.tif", 50, 30, PALETTE, place) as append:
        append(mask[:20])
        append(mask[20:])
    assert os.listdir(tmp_path) == ["a.tif"]
    with rasterio.open(tmp_path / "a.tif") as dataset:
        assert (dataset.read(1) == mask).all()
        assert dataset.crs.to_epsg() == 32633
        assert tuple(dataset.transform)[:6] == place.transform
        assert [dataset.colormap(1)[i][:3] for i in range(4)] == list(PALETTE)
    with Image.open(tmp_path / "a.tif") as image:
        assert (np.asarray(image) == mask).all()
