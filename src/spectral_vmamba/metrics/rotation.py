"""Measure how the outputs of a network change when its input is rotated.

`measure_sweep` scores a classifier on labeled batches at every angle; `rotation_gap` compares the logits and visiting
orders of any model at a few angles. Both use one loop (`compare_angles`) and one accumulator (`OutputChange`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from spectral_vmamba.metrics.traversal_gap import summarize_gaps, traversal_gap
from spectral_vmamba.ops.traversal import Traversal
from spectral_vmamba.ops.turns import Fill, rotate, rotate_pixels
from spectral_vmamba.utils.progress import Progress, no_progress

Output = TypeVar("Output")


def compare_angles(
    output_at: Callable[[float], Output], angles: Iterable[float]
) -> Iterator[tuple[float, Output, Output]]:
    """Yield (angle, output on the upright images, output on the images rotated by that angle) for each angle."""
    upright = output_at(0.0)
    for angle in angles:
        yield angle, upright, output_at(angle) if angle else upright


@dataclass
class OutputChange:
    """Differences between outputs on rotated and on upright images, over all batches added."""

    images: int = 0
    flips: int = 0
    max_change: float = 0.0
    mean_change: float = 0.0

    def add(
        self,
        upright: Float[Tensor, "b classes"],
        rotated: Float[Tensor, "b classes"],
        unit: Float[Tensor, ""] | float = 1.0,
    ) -> None:
        """Count a batch. A flip is a changed prediction; changes are absolute differences in multiples of `unit`."""
        change = (rotated - upright).abs() / unit
        self.images += len(upright)
        self.flips += int((rotated.argmax(1) != upright.argmax(1)).sum())
        self.max_change = float(np.maximum(self.max_change, float(change.max())))  # keeps NaN, unlike max()
        self.mean_change += (float(change.mean()) - self.mean_change) * (len(upright) / self.images)


@dataclass(frozen=True)
class AngleScores:
    """Counts at one angle. `agreeing` images keep the prediction that they have upright; `max_change` is the largest
    change of a probability; `correct_per_class` divides `correct` by the true class."""

    angle: float
    images: int
    correct: int
    agreeing: int
    max_change: float
    correct_per_class: tuple[int, ...] = ()

    @property
    def accuracy(self) -> float:
        return self.correct / max(self.images, 1)

    @property
    def agreement(self) -> float:
        return self.agreeing / max(self.images, 1)

    @property
    def flips(self) -> int:
        return self.images - self.agreeing


@dataclass(frozen=True)
class Sweep:
    """Scores of a classifier over the angles of a circle."""

    name: str
    fill: Fill
    points: list[AngleScores]

    @property
    def upright(self) -> AngleScores:
        return next(point for point in self.points if point.angle == 0)

    @property
    def quarters(self) -> list[AngleScores]:
        return [point for point in self.points if point.angle % 90 == 0 and point.angle]

    @property
    def worst(self) -> AngleScores:
        return min(self.points, key=lambda point: point.accuracy)

    @property
    def mean_accuracy(self) -> float:
        return sum(point.accuracy for point in self.points) / len(self.points)


def sweep_angles(step: float) -> list[float]:
    """List the angles from 0° to below 360° in steps of `step` degrees, always including the quarter turns."""
    if not 0 < step <= 360:
        raise ValueError(f"expected a step of more than 0 and at most 360 degrees between angles, got {step:g}")
    steps = {round(i * step, 6) for i in range(int(360 / step) + 1)}
    return sorted({angle for angle in steps if angle < 360} | {0.0, 90.0, 180.0, 270.0})


def measure_sweep(
    name: str,
    probabilities: Callable[[Shaped[Tensor, "b 3 H W"]], Float[Tensor, "b classes"]],
    batches: Iterable[tuple[Shaped[Tensor, "b 3 H W"], Int[Tensor, "b"]]],
    angles: Sequence[float],
    fill: Fill = "black",
) -> Sweep:
    """Score a classifier on batches of (pixels, labels), each rotated by every angle.

    `probabilities` maps pixels (0 to 255) to class probabilities. Multiples of 90° are exact, other angles bilinear.
    Each image is compared with itself at 0° under the same fill.
    """
    outputs = (
        (lambda angle, pixels=pixels: probabilities(rotate_pixels(pixels, angle, fill)), labels)
        for pixels, labels in batches
    )
    return collect_sweep(name, outputs, angles, fill)


def collect_sweep(
    name: str,
    outputs: Iterable[tuple[Callable[[float], Float[Tensor, "b classes"]], Int[Tensor, "b"]]],
    angles: Sequence[float],
    fill: Fill,
) -> Sweep:
    """Score a classifier on batches of (function from an angle to probabilities, labels)."""
    counter = SweepCounter(name, fill)
    for probabilities_at, labels in outputs:
        for angle, upright, rotated in compare_angles(probabilities_at, angles):
            counter.add(angle, upright, rotated, labels)
    return counter.sweep(angles)


@dataclass
class SweepCounter:
    """Counts the outputs of a classifier, batch by batch and angle by angle."""

    name: str
    fill: Fill
    changes: dict[float, OutputChange] = field(default_factory=dict)
    correct: dict[float, Int[Tensor, "classes"]] = field(default_factory=dict)

    def add(
        self,
        angle: float,
        upright: Float[Tensor, "b classes"],
        rotated: Float[Tensor, "b classes"],
        labels: Int[Tensor, "b"],
    ) -> None:
        self.changes.setdefault(angle, OutputChange()).add(upright, rotated)
        right = labels[rotated.argmax(1).cpu() == labels.cpu()]
        counts = right.cpu().bincount(minlength=rotated.shape[1])
        self.correct[angle] = self.correct.get(angle, 0) + counts

    def sweep(self, angles: Sequence[float]) -> Sweep:
        return Sweep(self.name, self.fill, [self._scores(angle) for angle in angles])

    def _scores(self, angle: float) -> AngleScores:
        change = self.changes.get(angle, OutputChange())
        correct = tuple(self.correct[angle].tolist()) if angle in self.correct else ()
        return AngleScores(angle, change.images, sum(correct), change.images - change.flips, change.max_change, correct)


@dataclass(frozen=True)
class RotationGap:
    """A model's outputs at one angle compared with those on the upright images.

    Differences are in units of the standard deviation of the upright logits. The last three fields are `None` for
    models without traversals. `positions_unchanged` is the share of steps, over all visiting orders of all stages,
    that visit the same patch; it is `None` for angles that are not multiples of 90°.
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
    progress: Progress = no_progress,
) -> list[RotationGap]:
    """Compare a model's logits, and its traversals if it has any, on rotated images with those on the given images.

    Works on any classifier. The model runs in evaluation mode; its mode is restored afterwards. Angles are
    counterclockwise degrees: multiples of 90 are exact, others bilinear with zeros in the corners.

    >>> import torch
    >>> from spectral_vmamba import create_model, rotation_gap
    >>> model = create_model("spectral_vmamba_nano", num_classes=10)
    >>> [gap.bitwise_equal for gap in rotation_gap(model, torch.rand(2, 3, 32, 32))]
    [True, True, True]
    """
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            output_at = partial(_output_at, model, images, batch_size)
            tracked = progress(angles, "rotations", len(angles))
            return [_gap(angle, upright, rotated) for angle, upright, rotated in compare_angles(output_at, tracked)]
    finally:
        model.train(was_training)


@dataclass(frozen=True, eq=False)
class _Outputs:
    """Logits of all images; the traversals of each stage, per batch."""

    logits: Float[Tensor, "b classes"]
    traversals: list[list[Traversal]] | None


def _output_at(model: nn.Module, images: Tensor, batch_size: int, angle: float) -> _Outputs:
    batches = (rotate(images, angle) if angle else images).split(batch_size)
    forward: Any = getattr(model, "forward_traversals", None)
    if forward is None:
        return _Outputs(torch.cat([model(batch) for batch in batches]), None)
    outputs = [forward(batch) for batch in batches]
    return _Outputs(torch.cat([logits for logits, _ in outputs]), [traversals for _, traversals in outputs])


def _gap(angle: float, upright: _Outputs, rotated: _Outputs) -> RotationGap:
    change = OutputChange()
    smallest = torch.finfo(upright.logits.dtype).tiny
    change.add(upright.logits, rotated.logits, upright.logits.std(correction=0).clamp_min(smallest))
    counts = (angle, change.images, change.flips, change.max_change, change.mean_change)
    if upright.traversals is None or rotated.traversals is None:
        return RotationGap(*counts)
    gaps = [
        traversal_gap(*stage, angle)
        for batch in zip(upright.traversals, rotated.traversals, strict=True)
        for stage in zip(*batch, strict=True)
    ]
    return RotationGap(*counts, *summarize_gaps(gaps, stages=len(upright.traversals[0])))
