"""Exact outlines of the regions of a mask, along the edges of its pixels.

Points are (x, y) = (column, row) of pixel corners: x grows to the right and y downward, and the pixel in row r and
column c is the square from (c, r) to (c + 1, r + 1). Counterclockwise means a positive shoelace sum of these numbers,
as in GeoJSON; on the screen, where y points down, such a ring is clockwise.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Int16, UInt8
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, depth_first_order

_BLOCK_PIXELS = 2**22
_OUTSIDE = -1


@dataclass(frozen=True, eq=False)
class Polygon:
    """A region of connected pixels (4-connectivity) of one class.

    `rings` are the exterior, counterclockwise, and the holes, clockwise; each is closed (its last point is its first
    one), and has a point wherever the outline turns. A ring never touches itself; two rings may touch at a point.
    `area` is the number of pixels.
    """

    class_id: int
    area: int
    rings: tuple[Int[np.ndarray, "_ 2"], ...]

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """x, y, width and height of the bounding box."""
        (left, top), (right, bottom) = self.rings[0].min(0), self.rings[0].max(0)
        return int(left), int(top), int(right - left), int(bottom - top)


def find_polygons(mask: UInt8[np.ndarray, "h w"], min_area: int = 1) -> list[Polygon]:
    """The regions of all classes with at least `min_area` pixels, by the position of their first pixel in row order.

    Time is linear in the number of pixels, up to sorting the corners of the outlines. Memory: the mask, a block of it,
    and about 200 bytes for each corner.
    """
    if mask.ndim != 2 or 0 in mask.shape or mask.dtype != np.uint8:
        raise ValueError(f"expected a mask (h, w) of uint8 with at least one pixel, got {mask.dtype} {mask.shape}")
    regions = _Regions(mask)
    edges = _trace_edges(mask, regions)
    order, firsts = _order_rings(edges.next)
    points, ends = edges.starts[order], np.append(firsts[1:], len(order))
    ring_regions = edges.regions[order[firsts]]
    following = edges.starts[edges.next[order]]
    areas = np.add.reduceat(points[:, 0] * (following[:, 1] - points[:, 1]), firsts)  # ∮ x dy
    region_areas = np.bincount(ring_regions, areas).astype(np.int64)
    by_region = np.lexsort((areas < 0, ring_regions))  # a region's exterior is its only ring with a positive area
    polygons = []
    for rings in np.split(by_region, np.flatnonzero(np.diff(ring_regions[by_region])) + 1):
        region = ring_regions[rings[0]]
        if region_areas[region] >= min_area:
            closed = tuple(np.concatenate([points[firsts[i] : ends[i]], points[[firsts[i]]]]) for i in rings)
            polygons.append(Polygon(int(regions.classes[region]), int(region_areas[region]), closed))
    return polygons


class _Regions:
    """The connected regions of a mask, numbered by their first pixels, as runs: consecutive equal pixels of a row."""

    def __init__(self, mask: UInt8[np.ndarray, "h w"]):
        self.width = mask.shape[1]
        self.starts = np.concatenate([_run_starts(mask[top:end]) + top * self.width for top, end in _blocks(mask)])
        classes = mask[self.starts // self.width, self.starts % self.width]
        # Runs of neighboring rows that overlap do so at a pixel where one of them begins.
        below = np.concatenate([self.starts, self.starts + self.width])
        below = below[(below >= self.width) & (below < mask.size)]
        runs, runs_above = self._find_runs(below), self._find_runs(below - self.width)
        joined = classes[runs] == classes[runs_above]
        _, labels = connected_components(_graph(runs[joined], runs_above[joined], len(self.starts)), directed=False)
        _, first_runs, labels = np.unique(labels, return_index=True, return_inverse=True)
        self.labels = np.argsort(np.argsort(first_runs))[labels]
        self.classes = classes[np.sort(first_runs)]

    def at(self, rows: Int[np.ndarray, "n"], columns: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        """The regions of pixels."""
        return self.labels[self._find_runs(rows * self.width + columns)]

    def _find_runs(self, pixels: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        return np.searchsorted(self.starts, pixels, side="right") - 1


@dataclass(frozen=True, eq=False)
class _Edges:
    """The straight edges of all outlines: their first points, their regions, and the edge that follows each."""

    starts: Int[np.ndarray, "n 2"]
    regions: Int[np.ndarray, "n"]
    next: Int[np.ndarray, "n"]


@dataclass(frozen=True)
class _Direction:
    """A direction of edges, as offsets (row, column) from a corner of pixels to the four pixels around it.

    Ahead or behind on the edge, inside the region or outside of it.
    """

    ahead_inside: tuple[int, int]
    ahead_outside: tuple[int, int]
    behind_inside: tuple[int, int]
    behind_outside: tuple[int, int]
    is_vertical: bool


_NW, _NE, _SW, _SE = (-1, -1), (-1, 0), (0, -1), (0, 0)
# Right along the top of a region, down its right side, left along the bottom, up the left side: each a quarter turn
# after the one before.
_DIRECTIONS = (
    _Direction(_SE, _NE, _SW, _NW, False),
    _Direction(_SW, _SE, _NW, _NE, True),
    _Direction(_NW, _SW, _NE, _SE, False),
    _Direction(_NE, _NW, _SE, _SW, True),
)


def _trace_edges(mask: UInt8[np.ndarray, "h w"], regions: _Regions) -> _Edges:
    """Edges start and end at corners. Along a line of pixel edges, those of one direction do not overlap: in the order
    of the line, the nth start and the nth end belong together.

    Where an edge ends, the outline turns away from the region if the pixel that is diagonal to the region's is in the
    same region, and around the region's pixel otherwise. So it never passes a corner twice: two diagonal pixels of a
    region are connected elsewhere, and that connection separates the other two pixels from each other.
    """
    rows, columns, around = _find_corners(mask)
    by_column = np.argsort(columns, kind="stable")
    starts, ends, following = [], [], []
    for number, direction in enumerate(_DIRECTIONS):
        start, end = _edge_limits(around, direction)
        line_order = by_column if direction.is_vertical else slice(None)
        starts.append(np.arange(len(rows))[line_order][start[line_order]])
        ends.append(at := np.arange(len(rows))[line_order][end[line_order]])
        ahead, behind = direction.ahead_outside, direction.behind_inside
        turns_away = around[ahead][at] == around[behind][at]
        diagonal = at[turns_away]
        pixels = [(rows[diagonal] + row, columns[diagonal] + column) for row, column in (ahead, behind)]
        turns_away[turns_away] = regions.at(*pixels[0]) == regions.at(*pixels[1])
        following.append((number + np.where(turns_away, -1, 1)) % 4)
    first_numbers = np.cumsum([0, *(len(part) for part in starts)])
    edge_at = np.full((4, len(rows)), -1)
    for number, part in enumerate(starts):
        edge_at[number, part] = first_numbers[number] + np.arange(len(part))
    inside = [
        regions.at(rows[part] + d.ahead_inside[0], columns[part] + d.ahead_inside[1])
        for d, part in zip(_DIRECTIONS, starts, strict=True)
    ]
    corners = np.concatenate(starts)
    return _Edges(
        np.stack([columns[corners], rows[corners]], 1),
        np.concatenate(inside),
        edge_at[np.concatenate(following), np.concatenate(ends)],
    )


def _edge_limits(
    around: dict[tuple[int, int], Int16[np.ndarray, "n"]], direction: _Direction
) -> tuple[Bool[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
    """At which corners edges of a direction start, and at which they end."""
    inside, inside_before = around[direction.ahead_inside], around[direction.behind_inside]
    has_edge = (inside != around[direction.ahead_outside]) & (inside != _OUTSIDE)
    had_edge = (inside_before != around[direction.behind_outside]) & (inside_before != _OUTSIDE)
    goes_on = has_edge & had_edge & (inside == inside_before)
    return has_edge & ~goes_on, had_edge & ~goes_on


def _find_corners(
    mask: UInt8[np.ndarray, "h w"],
) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"], dict[tuple[int, int], Int16[np.ndarray, "n"]]]:
    """Rows and columns of the pixel corners where an outline may turn, in row order, and the classes of the pixels
    around them."""
    found = []
    for top, end in _blocks(mask):
        last = end == len(mask)
        padded = np.full((end - top + 1 + last, mask.shape[1] + 2), _OUTSIDE, np.int16)
        first = max(top - 1, 0)
        padded[first - top + 1 : end - top + 1, 1:-1] = mask[first:end]
        corners = {_NW: padded[:-1, :-1], _NE: padded[:-1, 1:], _SW: padded[1:, :-1], _SE: padded[1:, 1:]}
        same_rows = (corners[_NW] == corners[_SW]) & (corners[_NE] == corners[_SE])
        same_columns = (corners[_NW] == corners[_NE]) & (corners[_SW] == corners[_SE])
        rows, columns = np.nonzero(~(same_rows | same_columns))
        found.append((rows + top, columns, *(corners[place][rows, columns] for place in (_NW, _NE, _SW, _SE))))
    rows, columns, *classes = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rows, columns, dict(zip((_NW, _NE, _SW, _SE), classes, strict=True))


def _order_rings(following: Int[np.ndarray, "n"]) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "rings"]]:
    """All edges ring by ring, each in its order, and the positions where the rings begin.

    The rings are opened and tied into one chain, which scipy walks in linear time.
    """
    count = len(following)
    _, labels = connected_components(_graph(np.arange(count), following, count), directed=False)
    _, heads, lengths = np.unique(labels, return_index=True, return_counts=True)
    before = np.empty(count, np.int64)
    before[following] = np.arange(count)
    chain = following.copy()
    chain[before[heads[:-1]]] = heads[1:]
    linked = np.delete(np.arange(count), before[heads[-1]])
    order = depth_first_order(_graph(linked, chain[linked], count), heads[0], return_predecessors=False)
    return order.astype(np.int64), np.cumsum(lengths) - lengths


def _graph(sources: Int[np.ndarray, "n"], targets: Int[np.ndarray, "n"], count: int) -> csr_array:
    return coo_array((np.ones(len(sources), np.int8), (sources, targets)), shape=(count, count)).tocsr()


def _run_starts(rows: UInt8[np.ndarray, "rows w"]) -> Int[np.ndarray, "n"]:
    begins = np.ones(rows.shape, bool)
    begins[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return np.flatnonzero(begins)


def _blocks(mask: UInt8[np.ndarray, "h w"]) -> list[tuple[int, int]]:
    """First and last row, exclusive, of blocks of the mask."""
    rows = max(_BLOCK_PIXELS // mask.shape[1], 1)
    return [(top, min(top + rows, len(mask))) for top in range(0, len(mask), rows)]
