"""ImageDataset of the visiting orders: how they follow what the image shows, and how they turn with it."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, UInt8
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from torch import Tensor

from spectral_vmamba.data import normalize
from spectral_vmamba.metrics.rotation_gap import traversal_gap
from spectral_vmamba.models import SpectralTokenizer
from spectral_vmamba.ops.traversal import Traversal
from spectral_vmamba.ops.turns import turned


@dataclass(frozen=True)
class TraversalPair:
    """A image and its turned self, with when (0 first, 1 last) each patch is visited along each eigenvector.

    `unchanged` (the share of equal steps) is known for quarter turns; `correlations` are rank correlations.
    """

    title: str
    angle: float
    images: tuple[UInt8[np.ndarray, "H W 3"], UInt8[np.ndarray, "H2 W2 3"]]
    steps: tuple[Float[np.ndarray, "m h w"], Float[np.ndarray, "m h2 w2"]]
    unchanged: float | None
    correlations: tuple[float, ...]


def measure_traversal(
    tokenizer: SpectralTokenizer,
    image: Float[Tensor, "3 H W"],
    angle: float,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    title: str = "",
) -> TraversalPair:
    """`image` has pixels 0..255."""
    views = [image[None].float(), turned(image[None].float(), angle)]
    traversals = []
    with torch.no_grad():
        for view in views:
            traversals.append(tokenizer.eval()(normalize(view, mean, std)).image_traversal())
    gap = traversal_gap(traversals[0], traversals[1], angle)
    images = [view[0].round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).numpy() for view in views]
    return TraversalPair(
        title,
        angle,
        (images[0], images[1]),
        (_steps(traversals[0]), _steps(traversals[1])),
        None if gap.same_steps is None else float(gap.same_steps.double().mean()),
        tuple(gap.correlations[0].tolist()),
    )


def _steps(traversal: Traversal) -> Float[np.ndarray, "m h w"]:
    ascending = traversal.inverses[:, ::2].double() / max(traversal.orders.shape[-1] - 1, 1)
    maps = traversal.grid.to_map((ascending + 1).mT)[0] - 1  # cells without a token come out as −1
    return maps.where(maps >= 0, torch.nan).numpy()


def plot_traversals(pairs: list[TraversalPair]) -> Figure:
    """Two rows a image, as it is and turned; one column an eigenvector."""
    columns = 1 + max(len(pair.steps[0]) for pair in pairs)
    figure = Figure(figsize=(2.3 * columns + 0.6, 4.9 * len(pairs) + 0.5), layout="constrained")
    axes = figure.subplots(2 * len(pairs), columns, squeeze=False)
    for i, pair in enumerate(pairs):
        for turned_row, (image, steps) in enumerate(zip(pair.images, pair.steps, strict=True)):
            row = axes[2 * i + turned_row]
            for axis in row:
                axis.set_axis_off()
            row[0].imshow(image)
            row[0].set_title(f"turned {pair.angle:g}°" if turned_row else pair.title, fontsize=10)
            for j, (axis, order) in enumerate(zip(row[1:], steps, strict=False)):
                extent = (0, image.shape[1], image.shape[0], 0)
                axis.imshow(image.mean(-1), cmap="gray")
                axis.imshow(order, cmap="viridis", alpha=0.62, extent=extent, vmin=0, vmax=1)
                correlation = f": ρ = {pair.correlations[j]:.2f}" if turned_row else ""
                axis.set_title(f"eigenvector {j + 1}{correlation}", fontsize=10)
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, 1), "viridis"), ax=axes, shrink=0.35, aspect=30, ticks=[0, 1], pad=0.02
    )
    bar.ax.set_yticklabels(["visited\nfirst", "visited\nlast"], fontsize=9)
    figure.suptitle("When each patch is visited along each eigenvector of the patch graph", fontsize=12)
    return figure
