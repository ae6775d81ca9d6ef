"""What turning images does to a classifier: accuracy and agreement at every angle."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from spectral_vmamba.ops.turns import rotate, turn

# What fills the corners that turning leaves: black (as in the paper), the image mirrored at its edge, or nothing is
# left, since only the inscribed disk is shown at every angle.
Fill = Literal["black", "reflect", "disk"]
FILLS: tuple[Fill, ...] = get_args(Fill)


@dataclass
class TurnScores:
    """One angle. Agreement is with the prediction for the same image unturned; `max_change` is the largest change of
    a probability."""

    angle: float
    images: int = 0
    right: int = 0
    agreeing: int = 0
    max_change: float = 0.0

    @property
    def accuracy(self) -> float:
        return self.right / max(self.images, 1)

    @property
    def agreement(self) -> float:
        return self.agreeing / max(self.images, 1)

    @property
    def flips(self) -> int:
        return self.images - self.agreeing

    def add(self, before: Tensor, after: Tensor, labels: Int[Tensor, "b"]) -> None:
        predicted = after.argmax(1)
        self.images += len(labels)
        self.right += int((predicted == labels).sum())
        self.agreeing += int((predicted == before.argmax(1)).sum())
        self.max_change = max(self.max_change, float((after - before).abs().max()))


@dataclass(frozen=True)
class Sweep:
    name: str
    fill: Fill
    points: list[TurnScores] = field(default_factory=list)

    @property
    def upright(self) -> TurnScores:
        return next(point for point in self.points if point.angle == 0)

    @property
    def quarters(self) -> list[TurnScores]:
        return [point for point in self.points if point.angle % 90 == 0 and point.angle]

    @property
    def worst(self) -> TurnScores:
        return min(self.points, key=lambda point: point.accuracy)

    @property
    def mean_accuracy(self) -> float:
        return sum(point.accuracy for point in self.points) / len(self.points)


def sweep_angles(step: float) -> list[float]:
    """0 to below 360° in steps, and the quarter turns in any case."""
    if not 0 < step <= 360:
        raise ValueError(f"expected a step of more than 0 and at most 360 degrees between turns, got {step:g}")
    steps = {round(i * step, 6) for i in range(int(360 / step) + 1)}
    return sorted({angle for angle in steps if angle < 360} | {0.0, 90.0, 180.0, 270.0})


def measure_sweep(
    name: str,
    probabilities: Callable[[Shaped[Tensor, "b 3 H W"]], Float[Tensor, "b classes"]],
    batches: Iterable[tuple[Shaped[Tensor, "b 3 H W"], Int[Tensor, "b"]]],
    angles: Sequence[float],
    fill: Fill = "black",
) -> Sweep:
    """`probabilities` of pixels 0 to 255; quarter turns of them are exact, others bilinear. Each image is compared
    with itself at 0°, seen with the same fill."""
    said = ((partial(_said_of, probabilities, pixels, fill), labels) for pixels, labels in batches)
    return gathered_sweep(name, said, angles, fill)


def _said_of(probabilities: Callable[[Tensor], Tensor], pixels: Tensor, fill: Fill, angle: float) -> Tensor:
    return probabilities(turned_pixels(pixels, angle, fill))


def gathered_sweep(
    name: str,
    said: Iterable[tuple[Callable[[float], Float[Tensor, "b classes"]], Int[Tensor, "b"]]],
    angles: Sequence[float],
    fill: Fill,
) -> Sweep:
    """From batches of a function, angle → probabilities, and labels."""
    points = {angle: TurnScores(angle) for angle in angles}
    for probabilities_at, labels in said:
        before = probabilities_at(0.0)
        for angle, point in points.items():
            after = probabilities_at(angle) if angle else before
            point.add(before, after, labels.to(after.device))
    return Sweep(name, fill, list(points.values()))


def turned_pixels(pixels: Shaped[Tensor, "b c h w"], angle: float, fill: Fill) -> Float[Tensor, "b c h w"]:
    pixels = pixels.float()
    if angle % 90 == 0:
        pixels = turn(pixels, round(angle / 90) % 4)
    else:
        pixels = rotate(pixels, angle, "reflection" if fill == "reflect" else "zeros")
    return pixels * inscribed_disk(pixels) if fill == "disk" else pixels


def inscribed_disk(pixels: Shaped[Tensor, "b c h w"]) -> Shaped[Tensor, "h w"]:
    """1 inside the largest circle about the center, else 0. In whole numbers, so that quarter turns keep it exactly."""
    height, width = pixels.shape[-2:]
    y = (2 * torch.arange(height, device=pixels.device) - (height - 1)) ** 2
    x = (2 * torch.arange(width, device=pixels.device) - (width - 1)) ** 2
    return (y[:, None] + x <= min(height, width) ** 2).to(pixels.dtype)
