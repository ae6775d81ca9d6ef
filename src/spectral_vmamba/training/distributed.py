"""What the processes of one job do together."""

from typing import Any

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel


def keep_group(wrapped: Any) -> None:
    """Let the process group outlive what DDP makes of a model.

    When DDP's reducer drops the last reference to the group, it waits, holding the GIL, for gloo's threads to end,
    and these may be waiting for the GIL (pytorch/pytorch#56297). An attribute dies after those that were set before
    it, and Python's own reference to a group lets go of the GIL.
    """
    if isinstance(wrapped, DistributedDataParallel):
        vars(wrapped)["kept_group"] = torch.distributed.group.WORLD


def any_process(accelerator: Any, *facts: bool) -> list[bool]:
    """Which of the facts hold in any process: what depends on clocks and signals must be the same decision in all."""
    if accelerator.num_processes == 1:
        return list(facts)
    counts = torch.tensor(facts, dtype=torch.float32, device=accelerator.device)
    return [count > 0 for count in accelerator.reduce(counts, "sum").tolist()]
