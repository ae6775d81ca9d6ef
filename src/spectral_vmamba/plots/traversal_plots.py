"""Plot visiting orders: when each patch is visited, in an image and in its rotated copy."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy import ndarray

from spectral_vmamba.metrics.traversal_gap import OrderPair, TraversalPair, summarize_steps

_SCANS = ("VMamba, by rows", "VMamba, by columns")


def plot_traversals(pairs: Sequence[TraversalPair]) -> Figure:
    """Plot two rows per image, upright and rotated, with one column per eigenvector and two of VMamba's scans."""
    eigenvectors = max(len(pair.spectral.visit_times[0]) for pair in pairs)
    columns = 1 + eigenvectors + len(_SCANS)
    figure = Figure(figsize=(2.0 * columns + 0.6, 4.6 * len(pairs) + 0.5), layout="constrained")
    axes = figure.subplots(2 * len(pairs), columns, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for i, pair in enumerate(pairs):
        for view in (0, 1):
            row, image = axes[2 * i + view], pair.images[view]
            row[0].imshow(image)
            row[0].set_title(f"rotated by {pair.angle:g}°" if view else pair.title, fontsize=10)
            names = [f"eigenvector {j + 1}" for j in range(eigenvectors)]
            _draw_orders(row[1 : 1 + eigenvectors], image, pair.spectral, view, names)
            _draw_orders(row[1 + eigenvectors :], image, pair.cross_scan, view, _SCANS)
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, 1), "viridis"), ax=axes, shrink=0.35, aspect=30, ticks=[0, 1], pad=0.01
    )
    bar.ax.set_yticklabels(["visited\nfirst", "visited\nlast"], fontsize=9)
    figure.suptitle(_title(pairs), fontsize=12)
    return figure


def _draw_orders(row: Sequence[Axes], image: ndarray, orders: OrderPair, view: int, names: Sequence[str]) -> None:
    for axis, name, times, correlation in zip(row, names, orders.visit_times[view], orders.correlations, strict=False):
        axis.imshow(image.mean(-1), cmap="gray")
        axis.imshow(times, cmap="viridis", alpha=0.62, extent=(0, image.shape[1], image.shape[0], 0), vmin=0, vmax=1)
        axis.set_title(f"{name}\nρ = {correlation:.2f}" if view else name, fontsize=9)


def _title(pairs: Sequence[TraversalPair]) -> str:
    """What the colors show and, for quarter turns, how many steps of all images agree."""
    title = "When each patch is visited along each eigenvector of the patch graph, and by VMamba's scans"
    spectral = summarize_steps([pair.spectral for pair in pairs])
    cross_scan = summarize_steps([pair.cross_scan for pair in pairs])
    if spectral is None or cross_scan is None:
        return title
    return f"{title}\nRotated, without the frame. Eigenvectors: {spectral}. VMamba: {cross_scan}."
