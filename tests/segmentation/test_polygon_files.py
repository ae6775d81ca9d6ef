"""GeoJSON and COCO files hold the same regions as the mask."""

import json
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from spectral_vmamba.segmentation.georeference import Georeference
from spectral_vmamba.segmentation.polygon_files import encode_runs, write_coco, write_geojson
from spectral_vmamba.segmentation.polygons import find_polygons
from spectral_vmamba.segmentation.ring_simplification import signed_area
from tests.segmentation.test_polygons import rasterize

CLASSES = ("soil", "Bäume", "water")
NORTH_UP = Georeference((0.5, 0.0, 400000.0, 0.0, -0.5, 5000000.0), "EPSG:32633")


def ring_mask():
    mask = np.zeros((8, 9), np.uint8)
    mask[2:6, 1:6] = 1
    mask[3:5, 3] = 2
    return mask


def read_geojson(path, mask, *arguments):
    write_geojson(path, "photos/a.jpg", find_polygons(mask), CLASSES, *arguments)
    return json.loads(path.read_text(encoding="utf-8"))


def test_geojson_in_pixels(tmp_path):
    stored = read_geojson(tmp_path / "a.geojson", ring_mask())
    assert stored.keys() == {"type", "features"}
    soil, trees, water = stored["features"]
    assert trees["properties"] == {"class": "Bäume", "class_id": 1, "area": 18, "image": "photos/a.jpg"}
    assert trees["geometry"]["type"] == "Polygon"
    assert len(trees["geometry"]["coordinates"]) == 2
    assert water["geometry"]["coordinates"] == [[[3, 3], [4, 3], [4, 5], [3, 5], [3, 3]]]
    assert soil["properties"]["area"] == 72 - 20


@pytest.mark.parametrize(
    "place",
    [
        NORTH_UP,
        Georeference((0.3, 0.4, 7.0, 0.4, -0.3, 2.0), "EPSG:3857"),
        Georeference((2.0, 0.0, 0.0, 0.0, 2.0, 0.0)),
    ],
)
def test_geojson_on_the_map(tmp_path, place):
    stored = read_geojson(tmp_path / "a.geojson", ring_mask(), place)
    for feature in stored["features"]:
        areas = [signed_area(np.array(ring)) for ring in feature["geometry"]["coordinates"]]
        assert areas[0] > 0, "counterclockwise on the map"
        assert all(area < 0 for area in areas[1:])
        assert sum(areas) == pytest.approx(feature["properties"]["area"] * place.pixel_area)
    if place is NORTH_UP:
        assert stored["crs"] == {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32633"}}
        (water,) = stored["features"][2]["geometry"]["coordinates"]
        assert {tuple(point) for point in water} == {(400000 + x / 2, 5000000 - y / 2) for x in (3, 4) for y in (3, 5)}
    if not place.crs:
        assert "crs" not in stored


def test_a_crs_without_a_code_is_named_by_its_text():
    wkt = 'LOCAL_CS["site",UNIT["metre",1]]'
    assert Georeference((1, 0, 0, 0, 1, 0), wkt).geojson_crs()["properties"]["name"] == wkt


def test_simplified_polygons_keep_the_area_of_their_pixels(tmp_path):
    mask = np.tril(np.ones((30, 30), np.uint8))
    below, _ = read_geojson(tmp_path / "a.geojson", mask, None, 1.5)["features"]
    assert below["properties"]["area"] == mask.sum()
    assert len(below["geometry"]["coordinates"][0]) < 10


def test_an_image_without_polygons(tmp_path):
    write_geojson(tmp_path / "a.geojson", "a.jpg", [], CLASSES)
    assert json.loads((tmp_path / "a.geojson").read_text()) == {"type": "FeatureCollection", "features": []}


def decode_runs(runs):
    """The mask of COCO's run lengths, column by column."""
    inside = np.arange(len(runs["counts"])) % 2 == 1
    height, width = runs["size"]
    return np.repeat(inside, runs["counts"]).reshape(width, height).T


@given(arrays.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.integers(0, 2)))
def test_run_lengths_are_those_of_the_region(mask):
    for polygon in find_polygons(mask):
        runs = encode_runs(polygon, *mask.shape)
        assert all(count > 0 for count in runs["counts"][1:])
        assert (decode_runs(runs) == rasterize(polygon.rings, mask.shape)).all()


def test_coco(tmp_path):
    path = tmp_path / "coco.json"
    with write_coco(path, CLASSES) as coco:
        coco.add("a.jpg", 8, 9, find_polygons(ring_mask()))
        coco.add("b.jpg", 4, 4, [])
        coco.add("ü.jpg", 2, 3, find_polygons(np.full((2, 3), 2, np.uint8)))
        assert not path.exists()
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["categories"] == [{"id": i, "name": name} for i, name in enumerate(CLASSES)]
    assert stored["images"][2] == {"id": 3, "file_name": "ü.jpg", "height": 2, "width": 3}
    soil, trees, water, whole = stored["annotations"]
    assert [annotation["id"] for annotation in stored["annotations"]] == [1, 2, 3, 4]
    assert (decode_runs(trees["segmentation"]) == (ring_mask() == 1)).all()
    assert (decode_runs(soil["segmentation"]) == (ring_mask() == 0)).all()
    assert water == {
        "id": 3,
        "image_id": 1,
        "category_id": 2,
        "segmentation": [[3, 3, 4, 3, 4, 5, 3, 5]],
        "area": 2,
        "bbox": [3, 3, 1, 2],
        "iscrowd": 0,
    }
    assert whole["image_id"] == 3


def test_pycocotools_reads_the_regions_back(tmp_path):
    coco_module = pytest.importorskip("pycocotools.coco", reason="needs pycocotools")
    mask = np.random.default_rng(0).integers(0, 3, (24, 31)).astype(np.uint8)
    with write_coco(tmp_path / "coco.json", CLASSES) as coco:
        coco.add("a.jpg", *mask.shape, find_polygons(mask))
    stored = coco_module.COCO(tmp_path / "coco.json")
    back = np.full(mask.shape, -1)
    for annotation in stored.loadAnns(stored.getAnnIds()):
        region = stored.annToMask(annotation) == 1
        assert region.sum() == annotation["area"]
        back[region] = annotation["category_id"]
    assert (back == mask).all()


def test_an_error_leaves_no_coco_file(tmp_path):
    def fail():
        with write_coco(tmp_path / "coco.json", CLASSES) as coco:
            coco.add("a.jpg", 8, 9, find_polygons(ring_mask()))
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        fail()
    assert os.listdir(tmp_path) == []
