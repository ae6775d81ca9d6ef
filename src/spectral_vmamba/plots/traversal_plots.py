"""Plot visiting orders: when each patch is visited, in an image and in its rotated copy."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from spectral_vmamba.metrics.traversal_gap import TraversalPair, summarize_steps

_SCANS = ("by rows", "by columns")
_PANEL = 1.6  # inches: the sides of a panel without its title


def plot_traversals(pairs: Sequence[TraversalPair]) -> Figure:
    """Plot two rows per image: VMamba's scans above the eigenvectors. The rotated copy is on the right."""
    orders = max(len(pair.spectral.correlations) for pair in pairs)
    half, scans = 1 + max(orders, len(_SCANS)), _scan_names(orders)
    figure = Figure(figsize=(_PANEL * 2 * half + 1.0, (_PANEL + 0.55) * 2 * len(pairs) + 0.8), layout="constrained")
    axes = figure.subplots(2 * len(pairs), 2 * half, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for i, pair in enumerate(pairs):
        names = [f"eigenvector {j + 1}" for j in range(orders)]
        for view in (0, 1):
            above, below = axes[2 * i : 2 * i + 2, view * half : (view + 1) * half]
            above[0].imshow(pair.images[view])
            above[0].set_title(f"rotated by {pair.angle:g}°" if view else pair.title, fontsize=10)
            forward = pair.cross_scan.visit_times[view]
            _draw_orders(above[1:], pair, view, scans, [*forward, *(1 - forward)], pair.cross_scan.correlations)
            _draw_orders(below[1:], pair, view, names, pair.spectral.visit_times[view], pair.spectral.correlations)
        if shares := _shares(pair):
            axes[2 * i + 1, half].text(0.5, 0.5, shares, ha="center", va="center", fontsize=9)
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, 1), "viridis"), ax=axes, shrink=0.35, aspect=30, ticks=[0, 1], pad=0.01
    )
    bar.ax.set_yticklabels(["visited\nfirst", "visited\nlast"], fontsize=9)
    figure.suptitle(_title(pairs), fontsize=12)
    return figure


def _scan_names(panels: int) -> list[str]:
    """VMamba's four scans, or the two that are not reversed, if there are fewer panels."""
    names = [f"VMamba\n{name}" for name in _SCANS]
    return names if panels < 2 * len(_SCANS) else [*names, *(f"VMamba\n{name.split()[1]}, reversed" for name in _SCANS)]


def _draw_orders(
    row: Sequence[Axes],
    pair: TraversalPair,
    view: int,
    names: Sequence[str],
    times: Sequence[np.ndarray] | np.ndarray,
    correlations: Sequence[float],
) -> None:
    image = pair.images[view]
    for axis, name, shown, correlation in zip(row, names, times, correlations, strict=False):
        axis.imshow(image.mean(-1), cmap="gray")
        axis.imshow(shown, cmap="viridis", alpha=0.62, extent=(0, image.shape[1], image.shape[0], 0), vmin=0, vmax=1)
        axis.set_title(f"{name}\nρ = {correlation:.2f}" if view else name, fontsize=9)


def _shares(pair: TraversalPair) -> str | None:
    """For quarter turns, how many steps of an image visit the same patch."""
    spectral, cross_scan = pair.spectral, pair.cross_scan
    if spectral.agreeing is None or cross_scan.agreeing is None:
        return None
    return (
        f"same steps:\n\nVMamba\n{cross_scan.agreeing / cross_scan.steps:.1%}\n\n"
        f"eigenvectors\n{spectral.agreeing / spectral.steps:.1%}"
    )


def _title(pairs: Sequence[TraversalPair]) -> str:
    """What the colors show and, for quarter turns, how many steps of all images agree."""
    title = "When each patch is visited: by VMamba's scans (above), along the eigenvectors of the patch graph (below)"
    spectral = summarize_steps([pair.spectral for pair in pairs])
    cross_scan = summarize_steps([pair.cross_scan for pair in pairs])
    if spectral is None or cross_scan is None:
        return title
    return f"{title}\nRotated, without the frame. Eigenvectors: {spectral}. VMamba: {cross_scan}."
