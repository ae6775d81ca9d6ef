"""How far a model's answers, and its visiting orders, move when its input turns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from spectral_vmamba.ops.traversal import Traversal
from spectral_vmamba.ops.turns import rotate, turn, turned


@dataclass(frozen=True)
class RotationGap:
    """One angle against the unturned images. Differences are in units of the unturned logits' standard deviation.

    The last three are `None` for models without traversals; `positions_unchanged`, the share of steps of all visiting
    orders of all stages at which the same patch is visited, is defined at quarter turns only.
    """

    angle: float
    images: int
    flips: int
    max_difference: float
    mean_difference: float
    positions_unchanged: float | None = None
    sign_flips: int | None = None
    rank_correlation: float | None = None

    @property
    def bitwise_equal(self) -> bool:
        return self.max_difference == 0


def rotation_gap(
    model: nn.Module,
    images: Float[Tensor, "b c h w"],
    angles: Sequence[float] = (90, 180, 270),
    batch_size: int = 16,
    progress: Callable[[Sequence[float]], Sequence[float]] = lambda angles: angles,
) -> list[RotationGap]:
    """Compare the model's logits, and its traversals if it has any, on turned images with those on the images as given.

    Works on any classifier. The model runs in evaluation mode and is left as it was. Angles are counterclockwise:
    quarter turns are exact, others bilinear with zeros in the corners.
    """
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            logits, orders = _answers(model, images, batch_size)
            return [
                _compare(angle, logits, orders, *_answers(model, turned(images, angle), batch_size))
                for angle in progress(angles)
            ]
    finally:
        model.train(was_training)


def _answers(model: nn.Module, images: Tensor, batch_size: int) -> tuple[Tensor, list[list[Traversal]] | None]:
    batches = images.split(batch_size)
    with_traversals: Any = getattr(model, "forward_traversals", None)
    if with_traversals is None:
        return torch.cat([model(batch) for batch in batches]), None
    answers = [with_traversals(batch) for batch in batches]
    return torch.cat([logits for logits, _ in answers]), [traversals for _, traversals in answers]


def _compare(angle, logits, orders, turned_logits, turned_orders) -> RotationGap:
    difference = (turned_logits - logits).abs() / logits.std(correction=0).clamp_min(torch.finfo(logits.dtype).tiny)
    flips = int((logits.argmax(1) != turned_logits.argmax(1)).sum())
    answers = (angle, len(logits), flips, float(difference.max()), float(difference.mean()))
    if orders is None:
        return RotationGap(*answers)
    gaps = [
        traversal_gap(*stages, angle)
        for batches in zip(orders, turned_orders, strict=True)
        for stages in zip(*batches, strict=True)
    ]
    return RotationGap(*answers, *_overall(gaps, stages=len(orders[0])))


@dataclass(frozen=True)
class TraversalGap:
    """Per step of each order, whether it visits the same patch (`None` off quarter turns); per eigenvector, the rank
    correlation: negative where the sign flipped."""

    same_steps: Bool[Tensor, "b k l"] | None
    correlations: Float[Tensor, "b m"]


def traversal_gap(before: Traversal, after: Traversal, angle: float) -> TraversalGap:
    same_steps = _same_steps(before, after, round(angle / 90)) if angle % 90 == 0 else None
    return TraversalGap(same_steps, _rank_correlations(before, after, angle))


def _overall(gaps: list[TraversalGap], stages: int) -> tuple[float | None, int, float]:
    """Steps count in every stage; signs and correlations in the first, where the eigenvectors are."""
    correlations = torch.cat([gap.correlations for gap in gaps[::stages]])
    steps = [gap.same_steps.flatten() for gap in gaps if gap.same_steps is not None]
    unchanged = float(torch.cat(steps).cpu().double().mean()) if steps else None
    return unchanged, int((correlations < 0).sum()), float(correlations.abs().mean())


def _same_steps(before: Traversal, after: Traversal, quarters: int) -> Tensor:
    """Whether each step of each order visits the same patch of the image before and after the turn."""
    numbers = torch.arange(before.orders.shape[-1], device=before.orders.device)
    numbers_after = after.grid.from_map(turn(before.grid.to_map(numbers[None, :, None]), quarters)).flatten()
    return numbers_after[after.orders] == before.orders


def _rank_correlations(before: Traversal, after: Traversal, angle: float) -> Float[Tensor, "b m"]:
    """Spearman's correlation along each eigenvector; for odd angles, over patches that both grids hold."""
    ranks_before, ranks_after = (t.grid.to_map(t.ranks.mT).cpu().double() for t in (before, after))
    known = after.grid.to_map(torch.ones_like(after.content[..., None])).cpu().double()
    if angle % 90 == 0:
        quarters = round(angle / 90)
        ranks_after, known = turn(ranks_after, -quarters), turn(known, -quarters)
    else:
        ranks_after, known = rotate(ranks_after, -angle), rotate(known, -angle)
    inside = (before.grid.to_map(torch.ones_like(before.content[..., None])).cpu() > 0) & (known > 0.999)
    weights = inside.double().flatten(2)
    a, b = (_centered(ranks.flatten(2), weights) for ranks in (ranks_before, ranks_after))
    scale = (a.square().sum(-1) * b.square().sum(-1)).sqrt()
    return torch.where(scale > 0, (a * b).sum(-1) / scale, 1.0)


def _centered(values: Tensor, weights: Tensor) -> Tensor:
    return (values - (values * weights).sum(-1, keepdim=True) / weights.sum(-1, keepdim=True).clamp_min(1)) * weights
