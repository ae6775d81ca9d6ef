"""Randomness as a function of what it is for: (seed, epoch, image) → the same draws, whoever asks and whenever.

Nothing has to be saved to go on after an interruption, and the number of worker processes changes nothing.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

# What the numbers of a key are for, so that no two uses share draws.
IMAGE, ORDER, STEP, SPLIT, MODEL, VIEW = range(6)


def seed_of(*key: int) -> int:
    return int(np.random.SeedSequence(key).generate_state(1, np.uint32)[0])


def reseed(*key: int) -> None:
    """From here on, the draws of Python's, NumPy's and torch's shared generators (timm's augmentations use all three)
    follow from the key."""
    seed = seed_of(*key)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (timm draws from it)
    torch.default_generator.manual_seed(seed)


@contextmanager
def generators_kept() -> Iterator[None]:
    """Whatever happens inside, the shared generators are afterwards where they were."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])
