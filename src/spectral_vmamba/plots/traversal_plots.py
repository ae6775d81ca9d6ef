"""Plot visiting orders: when each patch is visited, in an image and in its rotated copy."""

from collections.abc import Sequence

from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from spectral_vmamba.metrics.traversal_gap import TraversalPair


def plot_traversals(pairs: Sequence[TraversalPair]) -> Figure:
    """Plot two rows per image, upright and rotated, with one column per eigenvector."""
    columns = 1 + max(len(pair.visit_times[0]) for pair in pairs)
    figure = Figure(figsize=(2.3 * columns + 0.6, 4.9 * len(pairs) + 0.5), layout="constrained")
    axes = figure.subplots(2 * len(pairs), columns, squeeze=False)
    for i, pair in enumerate(pairs):
        for is_rotated, (image, times) in enumerate(zip(pair.images, pair.visit_times, strict=True)):
            row = axes[2 * i + is_rotated]
            for axis in row:
                axis.set_axis_off()
            row[0].imshow(image)
            row[0].set_title(f"rotated by {pair.angle:g}°" if is_rotated else pair.title, fontsize=10)
            for j, (axis, times_along) in enumerate(zip(row[1:], times, strict=False)):
                extent = (0, image.shape[1], image.shape[0], 0)
                axis.imshow(image.mean(-1), cmap="gray")
                axis.imshow(times_along, cmap="viridis", alpha=0.62, extent=extent, vmin=0, vmax=1)
                correlation = f": ρ = {pair.correlations[j]:.2f}" if is_rotated else ""
                axis.set_title(f"eigenvector {j + 1}{correlation}", fontsize=10)
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, 1), "viridis"), ax=axes, shrink=0.35, aspect=30, ticks=[0, 1], pad=0.02
    )
    bar.ax.set_yticklabels(["visited\nfirst", "visited\nlast"], fontsize=9)
    figure.suptitle("When each patch is visited along each eigenvector of the patch graph", fontsize=12)
    return figure
