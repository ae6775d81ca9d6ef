"""What a run of the benchmark was asked for."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

# track(items, description) goes through the items and shows how far it is.
Track = Callable[[Sequence, str], Iterable]


@dataclass(frozen=True)
class Settings:
    quick: bool = False
    threads: int = 1
    seed: int = 0
    compile: bool = False
