"""What a training run learns: the interface between the training loop and a kind of network."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from spectral_vmamba.data.order import ViewIndex
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.training.run_config import RunConfig

Forward = Callable[[Any], Tensor]
"""The network as wrapped by accelerate, in mixed precision if that was asked for; returns float32."""


@runtime_checkable
class TaskBatch(Protocol):
    """`indices` are those of the images in the training data; `unreadable` lists images that are missing."""

    @property
    def indices(self) -> list[int]: ...

    @property
    def unreadable(self) -> list[ReadError]: ...

    def __len__(self) -> int: ...


@runtime_checkable
class TrainingImages(Protocol):
    """Images with names."""

    @property
    def names(self) -> Sequence[str]: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Validation:
    """A score from 0 to 1, higher is better, the loss, and the images that could not be read."""

    score: float
    loss: float
    unreadable: Sequence[ReadError] = ()


@dataclass(frozen=True)
class Share:
    """The part of the validation images that this process reads, and how to add up what all processes found."""

    rank: int
    world_size: int
    add_up: Callable[[Tensor], Tensor]


class Task(Protocol):
    """A network, its data and its loss. `config` has all choices made."""

    @property
    def config(self) -> RunConfig: ...

    @property
    def model(self) -> nn.Module: ...

    @property
    def train(self) -> TrainingImages: ...

    @property
    def test_images(self) -> int:
        """How many images are held out for a final test."""
        ...

    def title(self) -> str:
        """The network and the data, in one line."""
        ...

    def train_batches(self, micro_batches: Iterable[list[ViewIndex]]) -> Iterator[Any]: ...

    def loss(self, forward: Forward, batch: Any) -> Tensor: ...

    def validate(self, model: nn.Module, share: Share) -> Validation: ...

    def header_entries(self) -> dict[str, Any]:
        """The fields of `CheckpointHeader` that describe the network and its data."""
        ...
