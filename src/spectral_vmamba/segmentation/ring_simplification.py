"""Outlines with fewer points, by the algorithm of Douglas and Peucker."""

import numpy as np
from jaxtyping import Bool, Float, Num


def simplify_ring(ring: Num[np.ndarray, "n 2"], tolerance: float) -> Num[np.ndarray, "m 2"]:
    """Leave out points of a closed ring that are at most `tolerance` from the simplified one.

    The result is closed, and has at least three corners, an area and the orientation of the ring; a ring that would
    lose them is returned as it is. Regions are simplified one by one: outlines that two of them share may come apart,
    and with tolerances of many pixels a ring may cross itself or others.
    """
    if tolerance <= 0:
        return ring
    opposite = int(np.argmax(((ring - ring[0]) ** 2).sum(1)))
    keep = np.zeros(len(ring), bool)
    keep[[0, opposite, -1]] = True
    _keep_distant_points(ring.astype(np.float64), keep, [(0, opposite), (opposite, len(ring) - 1)], tolerance)
    simplified = ring[keep]
    is_usable = len(simplified) >= 4 and signed_area(simplified) * signed_area(ring) > 0
    return simplified if is_usable else ring


def signed_area(ring: Num[np.ndarray, "n 2"]) -> float:
    """The area inside a closed ring of (x, y), positive if it is counterclockwise."""
    x, y = ring[:, 0].astype(np.float64), ring[:, 1].astype(np.float64)
    return float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum() / 2)


def _keep_distant_points(
    points: Float[np.ndarray, "n 2"], keep: Bool[np.ndarray, "n"], parts: list[tuple[int, int]], tolerance: float
) -> None:
    """Mark the farthest point of each part that is too far from the segment between its ends, and split there."""
    while parts:
        first, last = parts.pop()
        if last - first < 2:
            continue
        distances = _distances(points[first + 1 : last], points[first], points[last])
        farthest = int(np.argmax(distances))
        if distances[farthest] > tolerance:
            middle = first + 1 + farthest
            keep[middle] = True
            parts += [(first, middle), (middle, last)]


def _distances(
    points: Float[np.ndarray, "n 2"], start: Float[np.ndarray, "2"], end: Float[np.ndarray, "2"]
) -> Float[np.ndarray, "n"]:
    """Distances to a segment."""
    along = end - start
    length = float(along @ along)
    share = np.clip((points - start) @ along / length, 0, 1) if length else np.zeros(len(points))
    return np.linalg.norm(points - start - share[:, None] * along, axis=1)
