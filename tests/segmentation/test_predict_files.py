"""Files of all sizes and kinds become masks, overlays, polygons and areas; a bad file does not stop the others."""

import csv
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.data.find import NamedImage, find_images
from spectral_vmamba.data.unreadable import UNREADABLE_FILE, ReadError
from spectral_vmamba.segmentation.predict_files import PredictOptions, SegmentedFile, predict_files
from tests.support.toy_segmenter import ToySegmenter, toy_ids

ALL = ("mask", "overlay", "geojson", "coco", "areas")


def smooth_pixels(height, width):
    """Bright and dark blobs."""
    y, x = np.mgrid[:height, :width]
    waves = np.sin(y / 7)[..., None] + np.cos(x / 9)[..., None] + np.array([0.0, 0.1, 0.2])
    return (127 + 60 * waves).clip(0, 255).astype(np.uint8)


def save(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)


def predict(tmp_path, *names, segmenter=None, **options):
    options = PredictOptions(**{"output": str(tmp_path / "out"), "formats": ALL, **options})
    images = find_images([str(tmp_path / name) for name in names or ("photos",)])
    return list(predict_files(segmenter or ToySegmenter(), images, options))


def read_mask(path):
    with Image.open(path) as image:
        assert image.mode == "P"
        return np.asarray(image)


@pytest.mark.parametrize("size", [(20, 30), (32, 32), (32, 33), (7, 90), (100, 131), (1, 1)])
@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.6])
def test_masks_are_those_of_the_pixels(tmp_path, size, overlap):
    pixels = smooth_pixels(*size)
    save(tmp_path / "photos/a.png", pixels)
    (outcome,) = predict(tmp_path, overlap=overlap, formats=("mask",))
    (file,) = outcome.files
    assert file == tmp_path / "out/masks/a.png"
    assert (read_mask(file) == toy_ids(pixels)).all()
    assert outcome.pixels == tuple(np.bincount(toy_ids(pixels).reshape(-1), minlength=3).tolist())
    assert (outcome.height, outcome.width) == size


def test_all_outputs_of_an_image(tmp_path):
    pixels = smooth_pixels(70, 90)
    save(tmp_path / "photos/sub/a.png", pixels)
    save(tmp_path / "photos/b.png", pixels[:40])
    second, first = predict(tmp_path)
    assert [file.relative_to(tmp_path / "out").as_posix() for file in first.files] == [
        "masks/sub/a.png",
        "overlays/sub/a.jpg",
        "polygons/sub/a.geojson",
    ]
    assert sorted(os.listdir(tmp_path / "out")) == ["areas.csv", "coco.json", "masks", "overlays", "polygons"]
    mask = read_mask(first.files[0])
    with Image.open(first.files[1]) as overlay:
        assert overlay.width == 280
        assert overlay.height > 70
    features = json.loads(first.files[2].read_text())["features"]
    assert sum(feature["properties"]["area"] for feature in features) == mask.size
    coco = json.loads((tmp_path / "out/coco.json").read_text())
    assert [image["file_name"] for image in coco["images"]] == [second.name, first.name]
    areas = [sum(a["area"] for a in coco["annotations"] if a["category_id"] == i) for i in range(3)]
    assert areas == [a + b for a, b in zip(first.pixels, second.pixels, strict=True)]
    with (tmp_path / "out/areas.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["image"], row["class"], int(row["pixels"])) for row in rows[3:]] == [
        (first.name, name, count) for name, count in zip(ToySegmenter().classes, first.pixels, strict=True)
    ]


def test_the_batch_size_changes_nothing(tmp_path):
    save(tmp_path / "photos/a.png", np.random.default_rng(0).integers(0, 256, (90, 70, 3), np.uint8))
    files = {}
    for batch_size in (1, 3, 100):
        options = {"formats": ("mask", "overlay", "areas"), "output": str(tmp_path / str(batch_size))}
        predict(tmp_path, batch_size=batch_size, **options)
        paths = sorted((tmp_path / str(batch_size)).rglob("*.*"))
        files[batch_size] = [path.read_bytes() for path in paths if path.is_file()]
    assert files[1] == files[3] == files[100]
    assert len(files[1]) == 3


def test_photographs_are_segmented_as_displayed(tmp_path):
    exif = Image.Exif()
    exif[274] = 6
    pixels = np.full((30, 50, 3), 200, np.uint8)
    pixels[:16] = 10  # whole blocks of JPEG
    save(tmp_path / "photos/a.jpg", pixels, exif=exif, quality=95)
    (outcome,) = predict(tmp_path)
    mask = read_mask(outcome.files[0])
    assert mask.shape == (50, 30)
    assert (mask == toy_ids(np.rot90(pixels, -1).copy())).all()


def test_bad_files_are_reported_and_the_others_go_on(tmp_path):
    save(tmp_path / "photos/a.png", smooth_pixels(40, 40))
    (tmp_path / "photos/b.png").write_bytes(b"no image")
    save(tmp_path / "photos/c.png", smooth_pixels(50, 40))
    outcomes = predict(tmp_path, "photos", "none.png", largest_pixels=1600)
    assert [type(outcome) for outcome in outcomes] == [SegmentedFile, ReadError, ReadError, ReadError]
    assert [outcome.index for outcome in outcomes] == [0, 1, 2, 3]
    reasons = [outcome.reason for outcome in outcomes[1:]]
    assert "unknown format" in reasons[0]
    assert "40×50 pixels, more than the limit of 1,600" in reasons[1]
    assert "no image file" in reasons[2]
    listed = (tmp_path / "out" / UNREADABLE_FILE).read_text().splitlines()
    assert [line.split("\t")[1] for line in listed] == reasons
    assert sorted(os.listdir(tmp_path / "out/masks/photos")) == ["a.png"]
    assert len(json.loads((tmp_path / "out/coco.json").read_text())["images"]) == 1


def test_names_that_differ_in_the_suffix_only(tmp_path):
    for i, name in enumerate(("a.jpg", "a.png")):
        save(tmp_path / "photos" / name, np.full((4, 4, 3), 250 * i, np.uint8))
    first, second = predict(tmp_path, "photos", "photos/a.jpg", formats=("mask",))
    assert [file.name for file in (*first.files, *second.files)] == ["a.jpg.png", "a.png.png"]
    assert (read_mask(first.files[0]) == 0).all()
    assert (read_mask(second.files[0]) == 2).all()


def test_a_rerun_overwrites_and_removes_leftovers(tmp_path):
    save(tmp_path / "photos/a.png", np.zeros((4, 4, 3), np.uint8))
    (tmp_path / "photos/b.png").write_bytes(b"")
    predict(tmp_path)
    (tmp_path / "out/masks/.a.png.1.tmp").write_text("half")
    save(tmp_path / "photos/a.png", np.full((4, 4, 3), 255, np.uint8))
    (tmp_path / "photos/b.png").unlink()
    (outcome,) = predict(tmp_path)
    assert (read_mask(outcome.files[0]) == 2).all()
    assert os.listdir(tmp_path / "out/masks") == ["a.png"]
    assert not (tmp_path / "out" / UNREADABLE_FILE).exists()


def test_images_in_memory(tmp_path):
    image = Image.fromarray(smooth_pixels(40, 50))
    named = NamedImage("image 0", lambda: image)
    options = PredictOptions(str(tmp_path / "out"), ("mask",))
    (outcome,) = predict_files(ToySegmenter(), [named], options)
    assert (read_mask(outcome.files[0]) == toy_ids(np.asarray(image))).all()


def test_the_window_of_the_options_is_used(tmp_path):
    seen = set()

    class Recorder(ToySegmenter):
        def scores(self, images):
            seen.add(tuple(images.shape[2:]))
            return super().scores(images)

    save(tmp_path / "photos/a.png", smooth_pixels(30, 20))
    predict(tmp_path, segmenter=Recorder(), window=16)
    assert seen == {(16, 16)}
    predict(tmp_path, segmenter=Recorder())
    assert seen == {(16, 16), (30, 20)}


def test_an_error_of_the_network_is_not_the_file_s(tmp_path):
    class Broken(ToySegmenter):
        def scores(self, images):
            raise ValueError("the network is broken")

    save(tmp_path / "photos/a.png", smooth_pixels(40, 40))
    with pytest.raises(ValueError, match="the network is broken"):
        predict(tmp_path, segmenter=Broken())
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


@pytest.mark.parametrize("size", [(20, 30), (60, 90)])
def test_logits_that_are_not_finite_are_an_error(tmp_path, size):
    class Broken(ToySegmenter):
        def scores(self, images):
            return super().scores(images) * float("nan")

    save(tmp_path / "photos/a.png", smooth_pixels(*size))
    with pytest.raises(FloatingPointError, match="not finite"):
        predict(tmp_path, segmenter=Broken())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"formats": ()}, "expected formats of mask, overlay, geojson, coco, areas; got none"),
        ({"formats": ("mask", "svg")}, "got svg"),
        ({"overlap": 1.0}, "overlap from 0 to less than 1"),
        ({"overlap": -0.1}, "overlap from 0 to less than 1"),
        ({"window": 0}, "window of at least 1"),
        ({"batch_size": 0}, "batch_size of at least 1"),
        ({"min_area": 0}, "min_area of at least 1"),
        ({"simplify": -1.0}, "simplify of at least 0"),
    ],
)
def test_impossible_options(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(PredictOptions("out"), **changes)


@pytest.mark.parametrize("count", [2, 257])
def test_segmenters_with_impossible_classes(tmp_path, count):
    broken = replace(ToySegmenter(), classes=tuple(map(str, range(count))))
    with pytest.raises(ValueError, match=r"expected 2 colors|at most 256 classes"):
        predict(tmp_path, segmenter=broken)


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
