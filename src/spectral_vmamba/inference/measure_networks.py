"""Measure networks that take the same inputs: upright logits, and scores at every angle."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.loader import Batch, no_readable_image
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.inference.predictor import Predictor
from spectral_vmamba.metrics.rotation import Sweep, SweepCounter
from spectral_vmamba.models import SpectralVMamba
from spectral_vmamba.models.tokens import Inputs
from spectral_vmamba.ops.turns import UPRIGHT, Fill, Rotation
from spectral_vmamba.utils.progress import Progress
from spectral_vmamba.utils.tensor_file import digest_tensors


@runtime_checkable
class Evaluator(Protocol):
    """Yields batches, each with a function that returns the networks' input of its rotated images."""

    def rotated_batches(self, batch_size: int) -> Iterator[tuple[Batch, Callable[[Rotation], Inputs]]]: ...


@dataclass(frozen=True)
class Measurement:
    """Upright logits of the readable images, with their indices in the dataset, and one sweep for each fill."""

    logits: Float[Tensor, "n classes"]
    labels: Int[Tensor, "n"]
    indices: list[int]
    unreadable: list[ReadError]
    sweeps: list[Sweep]


@dataclass(frozen=True)
class SweepPlan:
    """Which rotations to measure; `disk_only` networks see only the inscribed disk."""

    angles: Sequence[float]
    fills: Sequence[Fill]
    disk_only: bool

    @classmethod
    def create(cls, model: nn.Module, angles: Sequence[float], fills: Sequence[Fill]) -> "SweepPlan":
        disk_only = isinstance(model, SpectralVMamba) and model.config.domain == "disk"
        return cls(angles, list(dict.fromkeys(fills)) if angles else [], disk_only)

    def simplest(self, angle: float, fill: Fill) -> Rotation:
        """The rotation that shows the network the same pixels."""
        return Rotation(float(angle), fill).simplify(self.disk_only)

    @property
    def distinct(self) -> list[Rotation]:
        """The rotations to run, the upright position first."""
        swept = (self.simplest(angle, fill) for angle in self.angles for fill in self.fills)
        return list(dict.fromkeys((UPRIGHT, *swept)))


def describe_inputs(model: nn.Module) -> str:
    """Equal for networks that can share their inputs: the same options and tokenizer weights, or no tokenizer."""
    if not isinstance(model, SpectralVMamba):
        return "pixels"
    tokenizer = model.tokenizer
    return f"{tokenizer.in_chans} {tokenizer.config!r} {digest_tensors(tokenizer.state_dict())}"


def measure_networks(
    predictors: Sequence[Predictor],
    evaluator: Evaluator,
    dataset: ImageDataset,
    plan: SweepPlan,
    batch_size: int,
    progress: Progress,
) -> list[Measurement]:
    """Run every network on every distinct rotation of every image; inputs are made once for all networks."""
    meters = [_Meter(predictor, plan) for predictor in predictors]
    unreadable: list[ReadError] = []

    def steps() -> Iterator[tuple[Batch, Rotation, Inputs]]:
        for batch, inputs_at in evaluator.rotated_batches(batch_size):
            unreadable.extend(batch.unreadable)
            for rotation in plan.distinct if batch.indices else ():
                with torch.inference_mode():
                    inputs = inputs_at(rotation)
                yield batch, rotation, inputs

    total = -(-len(dataset) // batch_size) * len(plan.distinct)
    names = "; ".join(dict.fromkeys(predictor.name for predictor in predictors))
    for batch, rotation, inputs in progress(steps(), names, total):
        for meter in meters:
            meter.add(batch, rotation, inputs)
    if not meters[0].indices:
        raise no_readable_image(dataset)
    unreadable.sort(key=lambda error: error.index)
    return [meter.measurement(unreadable) for meter in meters]


class _Meter:
    """Counts one network's outputs. The rotations of a batch come one after the other, the upright position first."""

    def __init__(self, predictor: Predictor, plan: SweepPlan):
        self.predictor, self.plan = predictor, plan
        self.counters: dict[Fill, SweepCounter] = {fill: SweepCounter(predictor.name, fill) for fill in plan.fills}
        self.indices: list[int] = []
        self.logits: list[Tensor] = []
        self.labels: list[Tensor] = []
        self.outputs: dict[Rotation, Tensor] = {}  # probabilities of the current batch

    def add(self, batch: Batch, rotation: Rotation, inputs: Inputs) -> None:
        with torch.inference_mode():
            logits = self.predictor.model.eval()(inputs).float().cpu()
        if rotation == UPRIGHT:
            self.indices += batch.indices
            self.logits.append(logits.clone())
            self.labels.append(batch.labels)
        self.outputs[rotation] = logits.softmax(1)
        if len(self.outputs) == len(self.plan.distinct):
            self._count(batch.labels)
            self.outputs.clear()

    def _count(self, labels: Int[Tensor, "b"]) -> None:
        for fill, counter in self.counters.items():
            upright = self.outputs[self.plan.simplest(0.0, fill)]
            for angle in self.plan.angles:
                counter.add(angle, upright, self.outputs[self.plan.simplest(angle, fill)], labels)

    def measurement(self, unreadable: list[ReadError]) -> Measurement:
        sweeps = [counter.sweep(self.plan.angles) for counter in self.counters.values()]
        return Measurement(torch.cat(self.logits), torch.cat(self.labels), self.indices, unreadable, sweeps)
