"""Georeferenced, damaged and large files; what a kill leaves behind."""

import csv
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.segmentation.predict_files import SegmentedFile
from tests.support.predicted_files import predict, save, smooth_pixels
from tests.support.toy_segmenter import toy_ids


def test_georeferenced_images_give_georeferenced_results(tmp_path):
    rasterio = pytest.importorskip("rasterio", reason="needs rasterio")
    pixels = smooth_pixels(60, 80)
    transform = rasterio.Affine(0.5, 0.0, 400000.0, 0.0, -0.5, 5000000.0)
    (tmp_path / "photos").mkdir()
    profile = {"driver": "GTiff", "count": 3, "height": 60, "width": 80, "dtype": "uint8", "photometric": "RGB"}
    with rasterio.open(tmp_path / "photos/a.tif", "w", crs="EPSG:32633", transform=transform, **profile) as dataset:
        dataset.write(pixels.transpose(2, 0, 1))
    (outcome,) = predict(tmp_path)
    assert [file.name for file in outcome.files] == ["a.png", "a.tif", "a.jpg", "a.geojson"]
    with rasterio.open(outcome.files[1]) as mask:
        assert (mask.read(1) == toy_ids(pixels)).all()
        assert mask.transform == transform
        assert mask.crs.to_epsg() == 32633
    stored = json.loads(outcome.files[3].read_text())
    assert "32633" in stored["crs"]["properties"]["name"]
    points = np.concatenate([ring for feature in stored["features"] for ring in feature["geometry"]["coordinates"]])
    assert points.min(0).tolist() == [400000.0, 5000000.0 - 30]
    with (tmp_path / "out/areas.csv").open() as file:
        areas = [float(row["square_map_units"]) for row in csv.DictReader(file)]
    assert areas == [count / 4 for count in outcome.pixels]


def test_a_tiff_file_that_is_damaged_in_the_middle_leaves_no_files(tmp_path):
    rasterio = pytest.importorskip("rasterio", reason="needs rasterio")
    (tmp_path / "photos").mkdir()
    path = tmp_path / "photos/a.tif"
    profile = {"driver": "GTiff", "count": 3, "height": 400, "width": 400, "dtype": "uint8", "photometric": "RGB"}
    place = {"crs": "EPSG:32633", "transform": rasterio.Affine(1, 0, 5, 0, -1, 5)}
    with rasterio.open(path, "w", compress="deflate", blockysize=16, **profile, **place) as dataset:
        dataset.write(np.random.default_rng(0).integers(0, 256, (3, 400, 400), np.uint8))
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 5000] = bytes(5000)
    path.write_bytes(content)
    save(tmp_path / "photos/b.png", smooth_pixels(40, 40))
    broken, good = predict(tmp_path)
    assert "cannot be read at row" in broken.reason
    assert isinstance(good, SegmentedFile)
    assert os.listdir(tmp_path / "out/masks") == ["b.png"]
    assert len(json.loads((tmp_path / "out/coco.json").read_text())["images"]) == 1


KILLED = """
import os, signal, sys
from spectral_vmamba.data.find import find_images
from spectral_vmamba.segmentation.predict_files import PredictOptions, predict_files
from tests.support.toy_segmenter import ToySegmenter

class Killed(ToySegmenter):
    calls = 0
    def scores(self, images):
        Killed.calls += 1
        if Killed.calls == 12:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().scores(images)

options = PredictOptions(sys.argv[2], ("mask", "overlay", "geojson", "coco", "areas"), batch_size=1)
list(predict_files(Killed(), find_images([sys.argv[1]]), options))
"""


@pytest.mark.full
def test_a_kill_leaves_complete_files_only(tmp_path):
    """The first image has 3 windows and the second one 16, of which the ninth is the last; a rerun completes it."""
    save(tmp_path / "photos/a.png", smooth_pixels(32, 60))
    save(tmp_path / "photos/b.png", smooth_pixels(100, 100))
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "photos"), str(tmp_path / "out")])
    assert done.returncode == -signal.SIGKILL
    visible = sorted(
        path.relative_to(tmp_path / "out").as_posix()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file() and not path.name.startswith(".")
    )
    assert visible == ["masks/a.png", "overlays/a.jpg", "polygons/a.geojson"]
    assert list((tmp_path / "out/masks").glob(".b.png.*.tmp"))
    predict(tmp_path)
    assert sorted(os.listdir(tmp_path / "out/masks")) == ["a.png", "b.png"]
    assert not list((tmp_path / "out").rglob(".*"))


LARGE = """
import re, sys
from pathlib import Path
import numpy as np
import torch
from spectral_vmamba.data.find import NamedImage
from spectral_vmamba.segmentation import predict_files as module
from spectral_vmamba.segmentation.predict_files import PredictOptions, predict_files
from tests.support.toy_segmenter import ToySegmenter

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

class Synthetic:
    height, width, georeference = 6000, 10000, None
    def __enter__(self): return self
    def __exit__(self, *error): pass
    def read(self, top, left, height, width):
        y, x = torch.arange(top, top + height), torch.arange(left, left + width)
        values = (y[:, None] // 37 * 91 + x // 53 * 57) % 256
        return values.to(torch.uint8).expand(3, -1, -1).contiguous()

module.open_regions = lambda image, largest: Synthetic()
small = PredictOptions(sys.argv[1] + "/small", ("mask", "overlay"))
Synthetic.height, Synthetic.width = 300, 10000
list(predict_files(ToySegmenter(window=256), [NamedImage("a", None)], small))
before = peak()
Synthetic.height = 6000
options = PredictOptions(sys.argv[1] + "/large", ("mask", "overlay"))
(outcome,) = predict_files(ToySegmenter(window=256), [NamedImage("a", None)], options)
print(before, peak(), sum(outcome.pixels))
"""


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak memory from /proc")
def test_60_megapixels_take_the_memory_of_a_strip(tmp_path):
    """The image would take 180 MB, its mask 60 MB, and its probabilities 720 MB. The peak is compared with that of an
    image of the same width and 300 rows; the overlay of the large one takes 70 MB more."""
    done = subprocess.run([sys.executable, "-c", LARGE, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    before, after, pixels = map(float, done.stdout.split())
    assert pixels == 60_000_000
    assert after - before < 120
    with Image.open(tmp_path / "large/masks/a.png") as mask:
        assert mask.size == (10000, 6000)
        y, x = np.mgrid[4000:6000, :10000]
        values = ((y // 37 * 91 + x // 53 * 57) % 256).astype(np.uint8)
        assert (np.asarray(mask)[4000:] == toy_ids(np.repeat(values[..., None], 3, 2))).all()
    with Image.open(tmp_path / "large/overlays/a.jpg") as overlay:
        assert overlay.width == 2000
