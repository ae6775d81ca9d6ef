"""Polygons are exact: rasterized, they give the mask back; and fast."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import ndimage

from spectral_vmamba.segmentation import polygons as module
from spectral_vmamba.segmentation.polygons import find_polygons
from spectral_vmamba.segmentation.ring_simplification import signed_area, simplify_ring

masks = arrays.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.integers(0, 2))


def rasterize(rings, shape):
    """How often rings wind around the center of each pixel, from their horizontal edges."""
    crossings = np.zeros((shape[0] + 1, shape[1]), int)
    for ring in rings:
        for (x, y), (x2, y2) in zip(ring[:-1].tolist(), ring[1:].tolist(), strict=True):
            if y == y2:
                crossings[y, min(x, x2) : max(x, x2)] += 1 if x2 > x else -1
    return crossings.cumsum(0)[:-1]


@settings(max_examples=100)
@given(masks, st.integers(1, 30))
def test_polygons_give_the_mask_back(mask, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_PIXELS", block)
        found = find_polygons(mask)
    back = np.full(mask.shape, -1)
    for polygon in found:
        winding = rasterize(polygon.rings, mask.shape)
        assert set(np.unique(winding)) <= {0, 1}
        inside = winding == 1
        assert (back[inside] == -1).all(), "no pixel is in two polygons"
        back[inside] = polygon.class_id
        assert ndimage.label(inside)[1] == 1, "one region of 4-connected pixels"
        assert polygon.area == inside.sum() == sum(map(signed_area, polygon.rings))
        rows, columns = np.nonzero(inside)
        left, top = columns.min(), rows.min()
        assert polygon.bounds == (left, top, columns.max() + 1 - left, rows.max() + 1 - top)
    assert (back == mask).all()
    regions = sum(ndimage.label(mask == class_id)[1] for class_id in np.unique(mask))
    assert len(found) == regions


@settings(max_examples=100)
@given(masks)
def test_rings_are_simple_closed_and_oriented(mask):
    for polygon in find_polygons(mask):
        exterior, *holes = map(signed_area, polygon.rings)
        assert exterior > 0
        assert all(hole < 0 for hole in holes)
        for ring in polygon.rings:
            assert (ring[0] == ring[-1]).all()
            corners = [tuple(point) for point in ring[:-1].tolist()]
            assert len(set(corners)) == len(corners) >= 4, "a ring does not touch itself"
            horizontal = np.diff(ring, axis=0)[:, 0] != 0
            assert (np.diff(ring, axis=0)[:, 1] != 0).tolist() == (~horizontal).tolist()
            assert (horizontal != np.roll(horizontal, 1)).all(), "every point is a corner"


@settings(max_examples=100)
@given(masks)
def test_polygons_are_valid_for_shapely(mask):
    geometry = pytest.importorskip("shapely.geometry", reason="needs shapely")
    for polygon in find_polygons(mask):
        shape = geometry.Polygon(polygon.rings[0], polygon.rings[1:])
        assert shape.is_valid
        assert shape.area == polygon.area


def test_a_pixel_and_a_hole():
    mask = np.zeros((3, 3), np.uint8)
    mask[1, 1] = 1
    around, pixel = find_polygons(mask)
    assert pixel.rings[0].tolist() == [[1, 1], [2, 1], [2, 2], [1, 2], [1, 1]]
    assert around.rings[0].tolist() == [[0, 0], [3, 0], [3, 3], [0, 3], [0, 0]]
    assert sorted(around.rings[1][:-1].tolist()) == [[1, 1], [1, 2], [2, 1], [2, 2]]
    assert (around.class_id, around.area, pixel.class_id, pixel.area) == (0, 8, 1, 1)


def test_pixels_that_touch_at_a_corner_are_two_regions():
    assert len(find_polygons(np.eye(2, dtype=np.uint8))) == 4


def test_specks_are_dropped():
    mask = np.zeros((9, 9), np.uint8)
    mask[0, 0] = mask[4, 4:6] = 1
    mask[7, 2:7] = 2
    assert [polygon.area for polygon in find_polygons(mask, min_area=2)] == [81 - 8, 2, 5]
    assert [polygon.area for polygon in find_polygons(mask, min_area=3)] == [81 - 8, 5]
    assert find_polygons(mask, min_area=100) == []


@pytest.mark.parametrize("mask", [np.zeros((0, 3), np.uint8), np.zeros((2, 2)), np.zeros((1, 2, 3), np.uint8)])
def test_other_arrays_are_refused(mask):
    with pytest.raises(ValueError, match=r"expected a mask \(h, w\) of uint8"):
        find_polygons(mask)


@pytest.mark.full
def test_ten_megapixels_take_seconds():
    coarse = np.random.default_rng(0).random((50, 50))
    mask = (ndimage.zoom(coarse, 64, order=1) * 4).astype(np.uint8)
    started = time.process_time()
    found = find_polygons(mask)
    assert time.process_time() - started < 10
    assert len(found) > 500
    assert sum(polygon.area for polygon in found) == mask.size == 3200 * 3200


def distance_to_ring(points, ring):
    """The largest distance of points from the segments of a ring."""
    start, along = ring[:-1].astype(float), np.diff(ring, axis=0).astype(float)
    offsets = points[:, None] - start
    share = np.clip((offsets * along).sum(-1) / (along**2).sum(-1), 0, 1)
    return np.linalg.norm(offsets - share[..., None] * along, axis=-1).min(1).max()


@given(masks, st.floats(0.1, 6))
def test_simplified_rings_are_close_closed_and_oriented(mask, tolerance):
    for polygon in find_polygons(mask):
        for ring in polygon.rings:
            simple = simplify_ring(ring, tolerance)
            assert (simple[0] == simple[-1]).all()
            assert 4 <= len(simple) <= len(ring)
            assert signed_area(simple) * signed_area(ring) > 0
            assert {tuple(point) for point in simple.tolist()} <= {tuple(point) for point in ring.tolist()}
            assert distance_to_ring(ring.astype(float), simple) <= tolerance + 1e-9


def test_a_staircase_becomes_a_line():
    mask = np.tril(np.ones((50, 50), np.uint8))
    below = next(polygon for polygon in find_polygons(mask) if polygon.class_id == 1)
    assert len(below.rings[0]) > 100
    assert len(simplify_ring(below.rings[0], 1.0)) <= 6
    assert simplify_ring(below.rings[0], 0.0) is below.rings[0]


def test_a_pixel_stays_a_pixel():
    (pixel,) = find_polygons(np.zeros((1, 1), np.uint8))
    assert (simplify_ring(pixel.rings[0], 50) == pixel.rings[0]).all()
