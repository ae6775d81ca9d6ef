"""Plot search results: each query, followed by the most similar images."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectral_vmamba.retrieval.thumbnails import Thumbnail

_COLUMNS = 6
_MAX_LETTERS = 24


def plot_contact_sheet(rows: Sequence[Sequence[Thumbnail]]) -> Figure:
    """Plot one block of thumbnails per query, six thumbnails per line. The first thumbnail of each row is the query."""
    columns = min(max(len(row) for row in rows), _COLUMNS)
    lines = [list(row[i : i + columns]) for row in rows for i in range(0, len(row), columns)]
    queries = {id(row[0]) for row in rows}
    figure = Figure(figsize=(1.75 * columns + 0.2, 2.15 * len(lines) + 0.2), layout="constrained")
    axes = figure.subplots(len(lines), columns, squeeze=False)
    for line, line_axes in zip(lines, axes, strict=True):
        for axis in line_axes[len(line) :]:
            axis.set_axis_off()
        for thumbnail, axis in zip(line, line_axes, strict=False):
            _draw(axis, thumbnail, id(thumbnail) in queries)
    return figure


def _draw(axis: Axes, thumbnail: Thumbnail, is_query: bool) -> None:
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set(visible=is_query, color="tab:blue", linewidth=2.5)
    if thumbnail.image is None:
        axis.text(0.5, 0.5, "missing", ha="center", va="center", transform=axis.transAxes, color="gray")
        axis.set_box_aspect(1)
    else:
        axis.imshow(thumbnail.image)
    weight = "bold" if is_query else "normal"
    axis.set_title(_shorten(thumbnail.title), fontsize=8, parse_math=False, fontweight=weight)
    axis.set_xlabel(_shorten(thumbnail.name), fontsize=7, parse_math=False)


def _shorten(text: str) -> str:
    """Keep the end of a long text: the end of a path differs more often than its beginning."""
    return text if len(text) <= _MAX_LETTERS else f"…{text[1 - _MAX_LETTERS :]}"
