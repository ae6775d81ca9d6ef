"""Training. Randomness is a function of (seed, step), so that a run can be cut anywhere and go on as if it had not."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spectral_vmamba._version import __version__
from spectral_vmamba.data.loader import Batch, Order
from spectral_vmamba.data.seeding import generators_kept
from spectral_vmamba.features import TokenBatch
from spectral_vmamba.inference.checkpoint import Checkpoint, save_checkpoint
from spectral_vmamba.inference.logits import answers
from spectral_vmamba.metrics.classification import top_share
from spectral_vmamba.training.distributed import any_process
from spectral_vmamba.training.learner import cosine
from spectral_vmamba.training.reporting import Bars, EpochReport, Reporter, StepReport
from spectral_vmamba.training.run_folder import RunFolder, settings_to_go_on
from spectral_vmamba.training.run_state import RunState
from spectral_vmamba.training.setup import Setup, set_up
from spectral_vmamba.training.step import Step, TrainingError
from spectral_vmamba.training.throughput import Clock
from spectral_vmamba.training.train_config import TrainConfig, with_absolute_paths
from spectral_vmamba.training.unreadable import UnreadableImages
from spectral_vmamba.utils.interruption import Interrupted, Interruption, interruptible

_REPORT_SECONDS = 0.5


@dataclass(frozen=True)
class FitResult:
    folder: Path
    best: dict[str, Any]
    history: list[EpochReport]


def fit(config: TrainConfig, resume: bool = False, reporter: Reporter | None = None) -> FitResult:
    """Train as the settings say; with `resume`, go on in the output folder if a run was begun there.

    Writes `best.safetensors`, `last.safetensors`, `config.yaml` and `history.json`. Ctrl-C ends after the step at hand,
    with the state saved, in `Interrupted`.
    """
    config, folder = with_absolute_paths(config), RunFolder(config.output)
    folder.prepare()
    checkpoint = folder.checkpoint(resume)
    if checkpoint is not None:
        config = settings_to_go_on(config, checkpoint, folder.path)
    setup = set_up(config, folder, reporter or Bars(), checkpoint)
    shown = setup.reporter
    with interruptible() as interruption, generators_kept():
        run = _Run(config, setup, folder, shown, interruption)
        if checkpoint is not None:
            run.restore(checkpoint)
        try:
            return run.through()
        except (RuntimeError, ValueError, TrainingError) as error:
            raise _explained(error, folder) from error
        finally:
            shown.end()
            setup.accelerator.end_training()


class _Run:
    def __init__(
        self, config: TrainConfig, setup: Setup, folder: RunFolder, reporter: Reporter, interruption: Interruption
    ):
        self.config, self.setup, self.folder = config, setup, folder
        self.reporter, self.interruption = reporter, interruption
        self.accelerator, self.learner = setup.accelerator, setup.learner
        self.order = Order(len(setup.train), setup.images_per_step, config.seed)
        self.epochs = max(config.epochs, -(-config.min_steps // self.order.steps_per_epoch))
        self.steps = self.epochs * self.order.steps_per_epoch
        scale = setup.images_per_step / 512
        longer = self.epochs / config.epochs
        optimizer = replace(config.optimizer, warmup_epochs=config.optimizer.warmup_epochs * longer)
        self.schedule = cosine(setup.learner.optimizer, optimizer, scale, self.order.steps_per_epoch, self.steps)
        self.one_step = Step(config, setup)
        self.broken = UnreadableImages(setup.train, config.max_broken, folder, reporter.note)
        self.state = RunState()
        self.saved = self.reported = time.monotonic()

    def through(self) -> FitResult:
        state, config = self.state, self.config
        self.reporter.begin(self._title(), self.steps, state.step, self.epochs)
        clock, batches = Clock(), self._batches()
        while state.step < self.steps and not 0 < config.patience <= state.epochs_without_progress():
            self.schedule.step_update(state.step)
            loss = self.one_step.take(state.step, self._parts(batches, clock))
            state.step += 1
            state.losses += loss
            self._report_step(loss, clock)
            ends_epoch = state.step % self.order.steps_per_epoch == 0
            if ends_epoch:
                self._end_epoch(clock)
                clock = Clock()
            due = not ends_epoch and time.monotonic() - self.saved > 60 * config.save_minutes
            due, stopping = any_process(self.accelerator, due, self.interruption.signal is not None)
            if due or stopping:
                self._save_last()
            if stopping:
                where = f"stopped after step {state.step} of {self.steps}; go on with --resume"
                raise Interrupted(where, self.interruption.exit_code())
        return FitResult(self.folder.path, state.best, state.history)

    def _title(self) -> str:
        trainable = sum(part.numel() for part in self.learner.model.parameters() if part.requires_grad)
        size = self.setup.preprocessing.size
        title = (
            f"{self.config.model} ({trainable:,} trainable parameters) on {self.config.data}: "
            f"{len(self.setup.train):,} images of {len(self.setup.train.classes)} classes to train on, "
            f"{len(self.setup.val):,} to validate on, seen at {size} × {size} pixels; "
            f"{self.setup.images_per_step} a step on {self.accelerator.device}"
        )
        if self.state.step >= self.steps:
            return f"{title}; this run has already finished its {self.steps} steps"
        return f"{title}; going on from step {self.state.step}" if self.state.step else title

    def _batches(self) -> Iterator[Batch | TokenBatch]:
        mine, of = self.accelerator.process_index, self.accelerator.num_processes
        parts = self.order.parts(self.state.step, self.steps, self.config.accumulate, mine, of)
        return self.setup.feed.training(parts)

    def _parts(self, batches: Iterator[Batch | TokenBatch], clock: Clock) -> list[Batch | TokenBatch]:
        with clock.waiting():
            parts = [next(batches) for _ in range(self.config.accumulate)]
        for batch in parts:
            self.broken.add(batch.broken)
            clock.images += len(batch.labels) * self.accelerator.num_processes
        return parts

    # -- between steps ------------------------------------------------------------------------------------------------

    def _end_epoch(self, clock: Clock) -> None:
        state, learner = self.state, self.learner
        speed, waiting = clock.images_per_second(), clock.waiting_share()
        raw, raw_loss = self._validate(learner.model)
        ema, ema_loss = (None, None) if learner.ema is None else self._validate(learner.ema.module)
        report = EpochReport(
            epoch=state.step // self.order.steps_per_epoch,
            step=state.step,
            loss=self._mean(state.losses / self.order.steps_per_epoch),
            lr=self._lr(),
            raw=raw,
            raw_loss=raw_loss,
            ema=ema,
            ema_loss=ema_loss,
            images_per_second=speed,
            waiting=waiting,
            seconds=clock.seconds(),
        )
        self.accelerator.log({key: value for key, value in asdict(report).items() if value is not None}, state.step)
        is_best = state.take(report)
        if is_best:
            self._save(self.folder.best, learner.tensors())
        self._save_last()
        if self.accelerator.is_main_process:
            self.folder.write_text("history.json", json.dumps([asdict(each) for each in state.history], indent=1))
        self.reporter.epoch(report, is_best)

    def _validate(self, model: nn.Module) -> tuple[float, float]:
        accelerator, setup = self.accelerator, self.setup
        mine, of = accelerator.process_index, accelerator.num_processes
        batches = setup.feed.validation(self.config.batch_size, mine, of)
        said = answers(model, setup.val, batches, setup.feed.inputs, accelerator.device, self._total)
        if said.broken and not self.state.history:
            names = ", ".join(setup.val.names[i] for i in said.broken[:10])
            self.reporter.note(f"{len(said.broken)} validation images cannot be read and are left out: {names}")
        return top_share(said.logits, said.labels, 1), float(F.cross_entropy(said.logits, said.labels))

    def _report_step(self, loss: float, clock: Clock) -> None:
        if time.monotonic() - self.reported < _REPORT_SECONDS:
            return
        self.reported = time.monotonic()
        report = StepReport(self.state.step, loss, self._lr(), clock.images_per_second(), clock.waiting_share())
        self.reporter.step(report)
        values = {"step_loss": loss, "step_lr": report.lr, "img/s": report.images_per_second}
        self.accelerator.log(values, step=self.state.step)

    def _lr(self) -> float:
        return float(self.learner.optimizer.param_groups[0]["lr"])

    def _mean(self, value: float) -> float:
        return float(self._total(torch.tensor(value, device=self.accelerator.device))) / self.accelerator.num_processes

    def _total(self, value: Tensor) -> Tensor:
        return self.accelerator.reduce(value, "sum")  # pyright: ignore[reportReturnType]

    # -- to a checkpoint and back -------------------------------------------------------------------------------------

    def _save_last(self) -> None:
        self._save(self.folder.last, {**self.learner.tensors(), **self.learner.optimizer_tensors()})
        self.saved = time.monotonic()

    def _save(self, path: Path, tensors: dict[str, Tensor]) -> None:
        if self.accelerator.is_main_process:
            save_checkpoint(path, tensors, self._facts())
        self.accelerator.wait_for_everyone()

    def _facts(self) -> dict[str, Any]:
        scaler = self.accelerator.scaler
        return {
            "versions": {"spectral_vmamba": __version__, "torch": torch.__version__},
            "config": self.config.as_dict(),
            "classes": list(self.setup.train.classes),
            "preprocessing": asdict(self.setup.preprocessing),
            "fingerprints": self.setup.fingerprints,
            **self.state.as_dict(),
            "scaler": scaler.state_dict() if scaler is not None else None,
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        self.learner.restore(checkpoint)
        self.state = RunState.from_dict(checkpoint.facts)
        if self.accelerator.scaler is not None and checkpoint.facts["scaler"]:
            self.accelerator.scaler.load_state_dict(checkpoint.facts["scaler"])


def _explained(error: Exception, folder: RunFolder) -> Exception:
    """What happened and what is left, in words."""
    kept = f"the last good checkpoint is {folder.last}" if folder.last.exists() else "nothing was saved yet"
    if isinstance(error, TrainingError):
        return TrainingError(f"{error} ({kept})")
    text = str(error)
    if isinstance(error, ValueError):  # from a process that prepares images, its last line is what it said
        return ValueError(text.splitlines()[-1].removeprefix("ValueError: ")) if "DataLoader" in text else error
    if "DataLoader worker" in text:
        return OSError(f"a process that prepares images died, perhaps for lack of memory; {kept}. {text}")
    if any(word in text for word in ("Connection closed by peer", "Connection reset", "gloo", "NCCL")):
        return OSError(f"another process of this job died; go on with --resume: {kept}. {text.splitlines()[0]}")
    return error
