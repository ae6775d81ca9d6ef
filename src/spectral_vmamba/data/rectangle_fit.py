"""Fit a rotated rectangle to the content of an image: where it differs from the color of its border."""

from dataclasses import dataclass
from math import ceil

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial import ConvexHull, QhullError

_SEARCH = 6.0  # pixels: how far from the enclosing rectangle its sides are searched
_STEP = 0.25
_INSIDE = 2.0  # pixels: ringing and resampling do not reach this far into the content
_MOST_PROFILES = 200  # across a side
_STRAIGHT = 1.0  # pixels: edge points this close to a side support it


@dataclass(frozen=True)
class Rectangle:
    """Points p with low ≤ axes @ p ≤ high. The rows of `axes` are orthogonal unit vectors; p is (x, y), y down."""

    axes: Float[np.ndarray, "2 2"]
    low: Float[np.ndarray, "2"]
    high: Float[np.ndarray, "2"]

    @property
    def sides(self) -> Float[np.ndarray, "2"]:
        return self.high - self.low

    @property
    def center(self) -> Float[np.ndarray, "2"]:
        return (self.low + self.high) / 2 @ self.axes

    @property
    def corners(self) -> Float[np.ndarray, "4 2"]:
        inside = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
        return (self.low + inside * self.sides) @ self.axes

    def outside_distances(self, height: int, width: int) -> Float[np.ndarray, "height width"]:
        """Distance of every pixel center from the rectangle, by the farther axis; negative inside."""
        x, y = np.arange(width) + 0.5, np.arange(height)[:, None] + 0.5
        projected = [a * x + b * y for a, b in self.axes]
        parts = [np.maximum(low - p, p - high) for p, low, high in zip(projected, self.low, self.high, strict=True)]
        return np.maximum(*parts)


@dataclass(frozen=True)
class SideFit:
    """A rectangle whose sides are at the edge of the content.

    `support` is the share of each side with an edge at most a pixel from it; `contrast` the median contrast of these
    edges.
    """

    rectangle: Rectangle
    support: Float[np.ndarray, "4"]
    contrast: float


def enclose(content: Bool[np.ndarray, "h w"]) -> Rectangle | None:
    """The rectangle that follows the convex hull of the content the longest; None if there is no content.

    Content less than three pixels wide, such as specks and the ringing of JPEG, is ignored.
    """
    eroded = content[:-2] & content[1:-1] & content[2:]
    eroded = eroded[:, :-2] & eroded[:, 1:-1] & eroded[:, 2:]
    points = _outermost(eroded) + 1.5
    try:
        hull = points[ConvexHull(points).vertices] if len(points) > 2 else points[:0]
    except QhullError:  # all on one line
        return None
    if not len(hull):
        return None
    outline = _resample(hull, 256)
    coarse, _ = _best_angle(outline, np.deg2rad(np.arange(0, 90, 0.5)))
    return _best_angle(outline, coarse + np.deg2rad(np.arange(-0.5, 0.51, 0.05)))[1]


def fit_sides(enclosing: Rectangle, contrast: Float[np.ndarray, "h w"], tolerance: float) -> SideFit:
    """Move each side to where most edges of the content are, seen from outside.

    An edge is where the contrast with the border exceeds half of the contrast farther inside, and the tolerance: the
    color that JPEG and reduced images spread across an edge does not move it.
    """
    offsets = np.arange(_SEARCH, -_SEARCH, -_STEP)
    inside = round(_INSIDE / _STEP)
    bounds, support, contrasts = np.stack([enclosing.low, enclosing.high]), [], []
    for axis in (0, 1):
        start, stop = enclosing.low[1 - axis], enclosing.high[1 - axis]
        along = np.linspace(start, stop, min(ceil(stop - start), _MOST_PROFILES) + 2)[1:-1]
        for end, outward in ((0, -1), (1, 1)):
            across = bounds[end, axis] + outward * offsets
            points = along[:, None, None] * enclosing.axes[1 - axis] + across[:, None] * enclosing.axes[axis]
            profiles = _sample(contrast, points)
            first = (profiles > tolerance).argmax(axis=1)
            rows = np.arange(len(along))
            reference = profiles[rows, np.minimum(first + inside, len(offsets) - 1)]
            level = np.maximum(tolerance, reference / 2)
            above = profiles > level[:, None]
            edge = np.where(above.any(axis=1), above.argmax(axis=1), len(offsets) + inside)
            position = _mode(edge, len(offsets), round(_STRAIGHT / _STEP))
            near = np.abs(edge - position) <= _STRAIGHT / _STEP
            support.append(near.mean())
            contrasts.append(reference[near])
            if near.any():
                bounds[end, axis] += outward * (_SEARCH - (edge[near].mean() - 0.5) * _STEP)
    edges = np.concatenate(contrasts)
    rectangle = Rectangle(enclosing.axes, bounds[0], bounds[1])
    return SideFit(rectangle, np.array(support), float(np.median(edges)) if len(edges) else 0.0)


def _outermost(mask: Bool[np.ndarray, "h w"]) -> Int[np.ndarray, "n 2"]:
    """The first and the last pixel (x, y) of every row and column."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    across, down = mask[rows], mask[:, columns]
    left, right = across.argmax(axis=1), mask.shape[1] - 1 - across[:, ::-1].argmax(axis=1)
    top, bottom = down.argmax(axis=0), mask.shape[0] - 1 - down[::-1].argmax(axis=0)
    pairs = ((left, rows), (right, rows), (columns, top), (columns, bottom))
    return np.concatenate([np.stack(pair, axis=1) for pair in pairs])


def _resample(polygon: Float[np.ndarray, "n 2"], count: int) -> Float[np.ndarray, "count 2"]:
    """Points at equal distances along a closed polygon."""
    closed = np.concatenate([polygon, polygon[:1]])
    lengths = np.concatenate([[0], np.linalg.norm(np.diff(closed, axis=0), axis=1).cumsum()])
    at = np.arange(count) * (lengths[-1] / count)
    return np.stack([np.interp(at, lengths, closed[:, i]) for i in (0, 1)], axis=1)


def _best_angle(outline: Float[np.ndarray, "n 2"], angles: Float[np.ndarray, "a"]) -> tuple[float, Rectangle]:
    cos, sin = np.cos(angles), np.sin(angles)
    axes = np.stack([cos, sin, -sin, cos], axis=1).reshape(-1, 2, 2)
    projected = axes @ outline.T
    low, high = projected.min(axis=-1), projected.max(axis=-1)
    distances = np.minimum(projected - low[..., None], high[..., None] - projected).min(axis=1)
    best = np.clip(1.5 * _STRAIGHT - distances, 0, None).sum(axis=-1).argmax()
    return float(angles[best]), Rectangle(axes[best], low[best], high[best])


def _sample(image: Float[np.ndarray, "h w"], points: Float[np.ndarray, "n m 2"]) -> Float[np.ndarray, "n m"]:
    """The pixels that contain the points; zero outside of the image."""
    height, width = image.shape
    x, y = np.moveaxis(np.floor(points).astype(np.intp), -1, 0)
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    return np.where(inside, image[y.clip(0, height - 1), x.clip(0, width - 1)], 0)


def _mode(values: Int[np.ndarray, "n"], size: int, spread: int) -> int:
    """The number below `size` with the most values at most `spread` from it."""
    counts = np.bincount(values, minlength=size)[:size]
    return int(np.convolve(counts, np.ones(2 * spread + 1), "same").argmax())
