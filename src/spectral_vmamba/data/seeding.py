"""Random draws as a function of their purpose: (seed, epoch, image) gives the same draws in any process, at any time.

No generator state has to be saved to resume a run, and the number of worker processes changes nothing.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

# The first number of a key: no two purposes share draws.
IMAGE, ORDER, STEP, SPLIT, MODEL, VIEW, UPRIGHT, FRAME = range(8)


def derive_seed(*key: int) -> int:
    return int(np.random.SeedSequence(key).generate_state(1, np.uint32)[0])


def reseed(*key: int) -> None:
    """Seed the global generators of Python, NumPy and torch, all of which timm's augmentations use, from the key."""
    seed = derive_seed(*key)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (timm draws from it)
    torch.default_generator.manual_seed(seed)


@contextmanager
def preserve_generators() -> Iterator[None]:
    """Restore the state of the global generators at the end of the block."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])
