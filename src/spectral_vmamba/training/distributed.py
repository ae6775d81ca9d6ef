"""Coordination of the processes of one job."""

from typing import Any

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel


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
