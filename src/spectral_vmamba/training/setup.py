"""From settings to the parts of a training run: devices, network, optimizer."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from spectral_vmamba.data.loader import default_workers
from spectral_vmamba.inference.checkpoint import Checkpoint, load_weights
from spectral_vmamba.inference.network import check_stem
from spectral_vmamba.training.distributed import keep_process_group_alive
from spectral_vmamba.training.learner import Learner
from spectral_vmamba.training.reporting import Reporter, SilentReporter
from spectral_vmamba.training.run import RunFolder
from spectral_vmamba.training.run_config import RunConfig
from spectral_vmamba.training.task import Task
from spectral_vmamba.utils.devices import resolve_device
from spectral_vmamba.utils.extras import require

if TYPE_CHECKING:
    from accelerate import Accelerator


@runtime_checkable
class Fingerprinted(Protocol):
    """Data that can tell whether it changed."""

    def fingerprint(self) -> str: ...


class Surroundings(NamedTuple):
    """What a task is prepared with: the processes of the job, a reporter, and the checkpoint of a resumed run."""

    accelerator: "Accelerator"
    reporter: Reporter
    checkpoint: Checkpoint | None
    folder: RunFolder

    def workers(self, config: RunConfig) -> int:
        return default_workers(self.accelerator.num_processes) if config.workers is None else config.workers

    def fingerprints(self, **parts: Fingerprinted | None) -> dict[str, str]:
        """Of the parts of the data that there are. ValueError if a resumed run was started with other images."""
        fingerprints = {name: part.fingerprint() for name, part in parts.items() if part is not None}
        if self.checkpoint is not None and self.checkpoint.header.fingerprints != fingerprints:
            raise ValueError(
                f"the images differ from those that the run in {self.folder.path} was started with (names, sizes, "
                f"labels or classes){' or the teacher does' if 'teacher' in fingerprints else ''}; restore them to "
                "resume, or start a new run"
            )
        return fingerprints

    def restore(self, model: nn.Module) -> bool:
        """Load the weights of a resumed run; return whether it is one."""
        if self.checkpoint is None:
            return False
        load_weights(model, self.checkpoint.with_prefix("raw"))
        check_stem(model, self.checkpoint)
        return True


Prepare = Callable[[Any, Surroundings], Task]
"""Makes the task of settings. A resumed run loads its checkpoint here: cached features must come from its own stem."""


@dataclass(frozen=True)
class Setup:
    """`forward` and `optimizer` are the learner's model and optimizer as wrapped by accelerate."""

    task: Task
    accelerator: "Accelerator"
    learner: Learner
    forward: Callable[[Any], Tensor]
    optimizer: Any
    images_per_step: int
    reporter: Reporter


def set_up(
    config: RunConfig, prepare: Prepare, folder: RunFolder, reporter: Reporter, checkpoint: Checkpoint | None = None
) -> Setup:
    """Prepare a run."""
    resolve_device(config.device)  # accelerate chooses among the GPUs of a job, but does not report a missing one
    accelerator = _make_accelerator(config, folder)
    reporter = reporter if accelerator.is_main_process else SilentReporter()
    task = prepare(config, Surroundings(accelerator, reporter, checkpoint, folder))
    images_per_step = config.batch_size * accelerator.num_processes
    learner = Learner.create(task.model, config, min(images_per_step, len(task.train)))
    forward, optimizer = accelerator.prepare(task.model, learner.optimizer)
    keep_process_group_alive(forward)
    if accelerator.is_main_process:
        folder.write_settings(task.config)
        if checkpoint is None:
            folder.remove_unreadable_list()
    if config.compile:
        forward = torch.compile(forward)
    return Setup(task, accelerator, learner, forward, optimizer, images_per_step, reporter)


def _make_accelerator(config: RunConfig, folder: RunFolder) -> "Accelerator":
    accelerate = require("accelerate", "train")
    tracker = _find_tracker(config.tracker)
    accelerator = accelerate.Accelerator(
        cpu=config.device == "cpu",
        mixed_precision=config.precision,
        gradient_accumulation_steps=config.accumulate,
        log_with=tracker,
        project_dir=str(folder.logs),
    )
    if tracker:
        accelerator.init_trackers("spectral_vmamba")
    return accelerator


def _find_tracker(name: str) -> str | None:
    if name == "auto":
        return "tensorboard" if importlib.util.find_spec("tensorboard") else None
    return None if name == "none" else name
