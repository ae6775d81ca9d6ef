"""Drawing what a search found: each query, then the images most like it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure

_COLUMNS = 6
_LETTERS = 24


@dataclass(frozen=True, eq=False)
class Tile:
    """A small image, None if it is missing, and what to write over it and below."""

    image: UInt8[np.ndarray, "h w 3"] | None
    title: str
    name: str


def plot_contact_sheet(rows: Sequence[Sequence[Tile]]) -> Figure:
    """A block for every query: the query first, then what was found, in lines of six."""
    columns = min(max(len(row) for row in rows), _COLUMNS)
    lines = [list(row[i : i + columns]) for row in rows for i in range(0, len(row), columns)]
    queries = {id(row[0]) for row in rows}
    figure = Figure(figsize=(1.75 * columns + 0.2, 2.15 * len(lines) + 0.2), layout="constrained")
    axes = figure.subplots(len(lines), columns, squeeze=False)
    for line, places in zip(lines, axes, strict=True):
        for axis in places[len(line) :]:
            axis.set_axis_off()
        for tile, axis in zip(line, places, strict=False):
            _draw(axis, tile, id(tile) in queries)
    return figure


def _draw(axis, tile: Tile, is_query: bool) -> None:
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set(visible=is_query, color="tab:blue", linewidth=2.5)
    if tile.image is None:
        axis.text(0.5, 0.5, "missing", ha="center", va="center", transform=axis.transAxes, color="gray")
        axis.set_box_aspect(1)
    else:
        axis.imshow(tile.image)
    weight = "bold" if is_query else "normal"
    axis.set_title(_shortened(tile.title), fontsize=8, parse_math=False, fontweight=weight)
    axis.set_xlabel(_shortened(tile.name), fontsize=7, parse_math=False)


def _shortened(text: str) -> str:
    """The end of a name tells more than its beginning."""
    return text if len(text) <= _LETTERS else f"…{text[1 - _LETTERS :]}"
