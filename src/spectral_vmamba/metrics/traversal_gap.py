"""Compare the visiting orders of images with those of the same images rotated."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from spectral_vmamba.data import normalize
from spectral_vmamba.models import SpectralTokenizer
from spectral_vmamba.ops.traversal import PatternTraversal, Traversal
from spectral_vmamba.ops.turns import rotate, turn


@dataclass(frozen=True)
class TraversalGap:
    """Two traversals of the same images, upright and rotated.

    `same_steps` tells for each step of each order whether it visits the same patch; it is `None` for angles that are
    not multiples of 90°. `correlations` are rank correlations per eigenvector, negative where the sign flipped.
    """

    same_steps: Bool[Tensor, "b k l"] | None
    correlations: Float[Tensor, "b m"]


def traversal_gap(upright: Traversal, rotated: Traversal, angle: float) -> TraversalGap:
    """Compare a traversal of upright images with one of the images rotated by `angle` degrees."""
    same_steps = _same_steps(upright, rotated, round(angle / 90)) if angle % 90 == 0 else None
    return TraversalGap(same_steps, _rank_correlations(upright, rotated, angle))


def summarize_gaps(gaps: Sequence[TraversalGap], stages: int) -> tuple[float | None, int, float]:
    """Return the share of unchanged steps, the number of sign flips and the mean absolute rank correlation.

    `gaps` lists all stages of the first batch, then all stages of the next. Steps count in every stage; signs and
    correlations only in the first, which has the eigenvectors.
    """
    correlations = torch.cat([gap.correlations for gap in gaps[::stages]])
    steps = [gap.same_steps.flatten() for gap in gaps if gap.same_steps is not None]
    unchanged = float(torch.cat(steps).cpu().double().mean()) if steps else None
    return unchanged, int((correlations < 0).sum()), float(correlations.abs().mean())


@dataclass(frozen=True)
class OrderPair:
    """The time of each patch's visit, 0 first and 1 last, along each axis of an image and of its rotated copy.

    An axis is an eigenvector, or a direction of a scan pattern. `agreeing` of `steps` steps, over all visiting orders,
    visit the same patch; `agreeing` is `None` for angles that are not multiples of 90°. `correlations` are rank
    correlations per axis. Grid cells without a token have the time NaN.
    """

    visit_times: tuple[Float[np.ndarray, "m h w"], Float[np.ndarray, "m h2 w2"]]
    agreeing: int | None
    steps: int
    correlations: tuple[float, ...]


@dataclass(frozen=True)
class TraversalPair:
    """An image and its rotated copy, with the orders that a tokenizer computes and those of VMamba's cross-scan."""

    title: str
    angle: float
    images: tuple[UInt8[np.ndarray, "H W 3"], UInt8[np.ndarray, "H2 W2 3"]]
    spectral: OrderPair
    cross_scan: OrderPair


def summarize_steps(pairs: Sequence[OrderPair]) -> str | None:
    """Return how many steps of all pairs agree, as one phrase; None for angles that are not multiples of 90°."""
    counts = [pair.agreeing for pair in pairs if pair.agreeing is not None]
    if len(counts) < len(pairs):
        return None
    return f"{sum(counts):,} of {sum(pair.steps for pair in pairs):,} steps visit the same patch"


def measure_traversal(
    tokenizer: SpectralTokenizer,
    image: Float[Tensor, "3 H W"],
    angle: float,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    title: str = "",
) -> TraversalPair:
    """Compute the traversals of an image and of the image rotated by `angle` degrees, and compare them.

    `image` has pixel values 0 to 255; `mean` and `std` normalize it for the stem of the tokenizer. Use a tokenizer
    without a frame: with one, both traversals are computed from the same bits at quarter turns, and their
    agreement says nothing about RFN and STS. The cross-scan has the grids of the tokenizer.
    """
    pixels = image[None].float()
    upright, rotated = pixels, rotate(pixels, angle)
    with torch.no_grad():
        before, after = (tokenizer.eval()(normalize(view, mean, std)).image_traversal() for view in (upright, rotated))
    cross_before, cross_after = (
        PatternTraversal.from_pattern("cross", each.grid, 1, pixels.device) for each in (before, after)
    )
    return TraversalPair(
        title,
        angle,
        (_to_array(upright), _to_array(rotated)),
        _compare_orders(before, after, angle, slice(0, None, 2)),
        _compare_orders(cross_before, cross_after, angle, slice(0, 2)),
    )


def _compare_orders(upright: Traversal, rotated: Traversal, angle: float, axes: slice) -> OrderPair:
    """`axes` selects the paths whose times are returned: one of each pair of opposite paths."""
    gap = traversal_gap(upright, rotated, angle)
    return OrderPair(
        (_visit_times(upright, axes), _visit_times(rotated, axes)),
        None if gap.same_steps is None else int(gap.same_steps.sum()),
        upright.orders[0].numel(),
        tuple(gap.correlations[0].tolist()),
    )


def _same_steps(upright: Traversal, rotated: Traversal, quarters: int) -> Bool[Tensor, "b k l"]:
    patches = torch.arange(upright.orders.shape[-1], device=upright.orders.device)
    # The upright patch at each position of the rotated grid.
    turned = rotated.grid.from_map(turn(upright.grid.to_map(patches[None, :, None]), quarters)).flatten()
    return turned[rotated.orders] == upright.orders


def _rank_correlations(upright: Traversal, rotated: Traversal, angle: float) -> Float[Tensor, "b m"]:
    """Spearman's correlation along each eigenvector, over the patches that both grids hold."""
    ranks_upright, ranks_rotated = (t.grid.to_map(t.ranks.mT).cpu().double() for t in (upright, rotated))
    inside_upright, inside_rotated = (
        t.grid.to_map(torch.ones_like(t.content[..., None])).cpu() for t in (upright, rotated)
    )
    ranks_rotated, known = rotate(ranks_rotated, -angle), rotate(inside_rotated.double(), -angle)
    weights = ((inside_upright > 0) & (known > 0.999)).double().flatten(2)
    a, b = (_center(ranks.flatten(2), weights) for ranks in (ranks_upright, ranks_rotated))
    scale = (a.square().sum(-1) * b.square().sum(-1)).sqrt()
    return torch.where(scale > 0, (a * b).sum(-1) / scale, 1.0)


def _center(values: Tensor, weights: Tensor) -> Tensor:
    """Subtract the weighted mean, and set values of weight 0 to 0."""
    return (values - (values * weights).sum(-1, keepdim=True) / weights.sum(-1, keepdim=True).clamp_min(1)) * weights


def _to_array(pixels: Float[Tensor, "1 3 H W"]) -> UInt8[np.ndarray, "H W 3"]:
    return pixels[0].round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).numpy()


def _visit_times(traversal: Traversal, axes: slice) -> Float[np.ndarray, "m h w"]:
    times = traversal.inverses[:, axes].double() / max(traversal.orders.shape[-1] - 1, 1)
    maps = traversal.grid.to_map((times + 1).mT)[0] - 1  # cells without a token become −1
    return maps.where(maps >= 0, torch.nan).numpy()
