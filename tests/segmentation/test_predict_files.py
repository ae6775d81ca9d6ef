"""Files of all sizes and kinds become masks, overlays, polygons and areas; a bad file does not stop the others."""

import csv
import json
import os
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.data.find import NamedImage, find_images
from spectral_vmamba.data.unreadable import UNREADABLE_FILE, ReadError
from spectral_vmamba.segmentation.predict_files import PredictOptions, SegmentedFile, predict_files
from tests.support.predicted_files import predict, read_mask, save, smooth_pixels
from tests.support.toy_segmenter import ToySegmenter, toy_ids


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


def test_one_prediction_at_a_time_writes_to_a_folder(tmp_path):
    for name in ("a", "b"):
        save(tmp_path / f"photos/{name}.png", smooth_pixels(20, 30))
    names = list(find_images([str(tmp_path / "photos")]))
    options = PredictOptions(str(tmp_path / "out"), formats=("mask", "coco"))
    first = predict_files(ToySegmenter(), names, options)
    next(first)
    with pytest.raises(OSError, match="another process is writing to the output folder"):
        next(predict_files(ToySegmenter(), names, options))
    assert len(list(first)) == 1
    assert len(json.loads((tmp_path / "out/coco.json").read_text())["images"]) == 2
    assert len(list(predict_files(ToySegmenter(), names, options))) == 2


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


def test_bad_files_are_reported_and_the_others_are_segmented(tmp_path):
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
