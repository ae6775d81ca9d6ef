"""Plot search results: each query, followed by the most similar images."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectral_vmamba.plots.typefaces import Typeface, find_typeface
from spectral_vmamba.retrieval.thumbnails import Thumbnail
from spectral_vmamba.utils.wording import shorten_middle

_COLUMNS = 6
_MAX_LETTERS = 24  # of the width of a thumbnail


def plot_contact_sheet(rows: Sequence[Sequence[Thumbnail]]) -> Figure:
    """Plot one block of thumbnails per query, six thumbnails per line. The first thumbnail of each row is the query."""
    columns = min(max(len(row) for row in rows), _COLUMNS)
    lines = [list(row[i : i + columns]) for row in rows for i in range(0, len(row), columns)]
    queries = {id(row[0]) for row in rows}
    typeface = find_typeface(text for row in rows for each in row for text in (each.label or "", each.name, "…"))
    figure = Figure(figsize=(1.75 * columns + 0.2, 2.15 * len(lines) + 0.2), layout="constrained")
    axes = figure.subplots(len(lines), columns, squeeze=False)
    for line, line_axes in zip(lines, axes, strict=True):
        for axis in line_axes[len(line) :]:
            axis.set_axis_off()
        for thumbnail, axis in zip(line, line_axes, strict=False):
            _draw(axis, thumbnail, id(thumbnail) in queries, typeface)
    return figure


def _draw(axis: Axes, thumbnail: Thumbnail, is_query: bool, typeface: Typeface) -> None:
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set(visible=is_query, color="tab:blue", linewidth=2.5)
    if thumbnail.image is None:
        axis.text(0.5, 0.5, "missing", ha="center", va="center", transform=axis.transAxes, color="gray")
        axis.set_box_aspect(1)
    else:
        axis.imshow(thumbnail.image)
    label = shorten_middle(typeface.drawable(thumbnail.label or ""), _MAX_LETTERS - len(thumbnail.title) - 1)
    name = shorten_middle(typeface.drawable(thumbnail.name), _MAX_LETTERS)
    style = {"fontfamily": list(typeface.families), "parse_math": False}
    if is_query:  # few fonts of other scripts have a bold face
        axis.set_title(thumbnail.title, fontsize=8, fontweight="bold")
    else:
        axis.set_title(f"{thumbnail.title} {label}".rstrip(), fontsize=8, **style)
    axis.set_xlabel(name, fontsize=7, **style)
