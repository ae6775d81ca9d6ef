"""Settings of a benchmark run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """`quick` selects small sizes; `compile` adds torch.compile to the scan section."""

    quick: bool = False
    threads: int = 1
    seed: int = 0
    compile: bool = False
