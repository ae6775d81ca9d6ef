"""Coordination of the processes of one job."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

from spectral_vmamba.utils.extras import require


@contextmanager
def own_accelerator_state() -> Iterator[None]:
    """A context for an `Accelerator` with settings of its own, after which those of the calling program are back.

    accelerate keeps device, precision and gradient accumulation of a process in dictionaries of three classes, which
    all its objects share. In a job of several processes, its processes and their devices stay as they are.
    """
    states = require("accelerate", "train").state
    shared = [kind._shared_state for kind in (states.AcceleratorState, states.GradientState, states.PartialState)]
    saved = [dict(values) for values in shared]
    for values in shared[:2] if _is_job_of_several() else shared:
        values.clear()
    try:
        yield
    finally:
        for values, previous in zip(shared, saved, strict=True):
            values.clear()
            values.update(previous)


def end_training(accelerator: Any, keep_process_group: bool) -> None:
    """Finish the trackers, and leave the processes' group unless the calling program made it."""
    if not keep_process_group:
        return accelerator.end_training()
    for tracker in accelerator.trackers:
        tracker.finish()


def _is_job_of_several() -> bool:
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def keep_process_group_alive(wrapped: Any) -> None:
    """Let the process group outlive DDP's reducer.

    When the reducer drops the last reference to the group, it waits for gloo's threads to end while it holds the GIL,
    and these may be waiting for the GIL (pytorch/pytorch#56297). Attributes are released in the order in which they
    were set, and Python's own reference to a group releases the GIL.
    """
    if isinstance(wrapped, DistributedDataParallel):
        vars(wrapped)["_process_group_reference"] = torch.distributed.group.WORLD


def any_process(accelerator: Any, *flags: bool) -> list[bool]:
    """Which flags are set in any process. Decisions that depend on clocks and signals must be the same in all."""
    if accelerator.num_processes == 1:
        return list(flags)
    counts = torch.tensor(flags, dtype=torch.float32, device=accelerator.device)
    return [count > 0 for count in accelerator.reduce(counts, "sum").tolist()]
