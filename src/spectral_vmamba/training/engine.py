"""The training loop, for every kind of network.

Random draws are a function of (seed, step): an interrupted run resumes as if uninterrupted.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn

from spectral_vmamba._version import __version__
from spectral_vmamba.data.order import TrainingOrder, with_second_views
from spectral_vmamba.data.seeding import preserve_generators
from spectral_vmamba.inference.checkpoint import Checkpoint, CheckpointHeader, save_checkpoint
from spectral_vmamba.training.distributed import any_process, end_training, own_accelerator_state
from spectral_vmamba.training.failures import UnreadableImages, explain_failure
from spectral_vmamba.training.learner import LR_BATCH_SIZE, make_schedule
from spectral_vmamba.training.reporting import EpochReport, Reporter, StepReport, TerminalReporter
from spectral_vmamba.training.run import RunFolder, RunState, resume_settings
from spectral_vmamba.training.run_config import RunConfig
from spectral_vmamba.training.setup import Prepare, Setup, set_up
from spectral_vmamba.training.step import TrainingError, TrainingStep
from spectral_vmamba.training.task import Share, TaskBatch, Validation
from spectral_vmamba.training.throughput import Throughput
from spectral_vmamba.utils.atomic_files import discard_new_folder
from spectral_vmamba.utils.interruption import Interrupted, Interruption, interruptible
from spectral_vmamba.utils.settings import to_json_dict
from spectral_vmamba.utils.wording import plural

_REPORT_SECONDS = 0.5


@dataclass(frozen=True)
class FitResult:
    """The run's folder, the report of its best epoch, the reports of all epochs, and how many test images were held
    out."""

    folder: Path
    best: dict[str, Any]
    history: list[EpochReport]
    test_images: int = 0


def run_training(config: RunConfig, prepare: Prepare, resume: bool, reporter: Reporter | None) -> FitResult:
    """Train what `prepare` makes of the settings; with `resume`, continue the run in the output folder if there is one.

    Ctrl-C stops after the current step, saves the state and raises `Interrupted`.
    """
    config, folder = config.with_absolute_paths(), RunFolder(config.output)
    host_group = torch.distributed.is_available() and torch.distributed.is_initialized()
    with own_accelerator_state():
        with discard_new_folder(folder.path):
            folder.prepare()
            checkpoint = folder.checkpoint(resume)
            if checkpoint is not None:
                config = resume_settings(config, checkpoint, folder.path)
            if not config.data:
                raise ValueError("training requires images: --data photos/, or data='photos/' in Python")
            setup = set_up(config, prepare, folder, reporter or TerminalReporter(), checkpoint)
        with interruptible() as interruption, preserve_generators():
            run = _TrainingRun(setup, folder, interruption)
            if checkpoint is not None:
                run.restore(checkpoint)
            try:
                return run.train()
            except (RuntimeError, ValueError, TrainingError) as error:
                raise explain_failure(error, folder) from error
            finally:
                setup.reporter.end()
                end_training(setup.accelerator, keep_process_group=host_group)


class _TrainingRun:
    def __init__(self, setup: Setup, folder: RunFolder, interruption: Interruption):
        config, task = setup.task.config, setup.task
        self.config, self.task, self.setup, self.folder, self.interruption = config, task, setup, folder, interruption
        self.accelerator, self.learner, self.reporter = setup.accelerator, setup.learner, setup.reporter
        self.rank, self.world_size = setup.accelerator.process_index, setup.accelerator.num_processes
        self.order = TrainingOrder(len(task.train), setup.images_per_step, config.seed)
        steps_per_epoch = self.order.steps_per_epoch
        self.epochs = max(config.epochs, -(-config.min_steps // steps_per_epoch))
        if config.steps:
            self.epochs = -(-config.steps // steps_per_epoch)
        self.steps = config.steps or self.epochs * steps_per_epoch
        warmup_epochs = config.optimizer.warmup_epochs * (self.epochs / config.epochs)
        optimizer = replace(config.optimizer, warmup_epochs=warmup_epochs)
        scale = setup.images_per_step / LR_BATCH_SIZE
        self.schedule = make_schedule(setup.learner.optimizer, optimizer, scale, steps_per_epoch, self.steps)
        self.step = TrainingStep(setup)
        self.unreadable = UnreadableImages(task.train, config.max_unreadable, folder, self.reporter.note)
        self.state = RunState()
        self.last_save = self.last_report = time.monotonic()

    def train(self) -> FitResult:
        state, config = self.state, self.config
        self.reporter.begin(self._title(), self.steps, state.step, self.epochs)
        throughput, batches = Throughput(), self._batches()
        while state.step < self.steps and not 0 < config.patience <= state.epochs_without_improvement():
            self.schedule.step_update(state.step)
            loss = self.step(state.step, self._next_micro_batches(batches, throughput))
            state.step += 1
            state.losses += loss
            self._report_step(loss, throughput)
            ends_epoch = state.step % self.order.steps_per_epoch == 0 or state.step == self.steps
            if ends_epoch:
                self._end_epoch(throughput)
                throughput = Throughput()
            due = not ends_epoch and time.monotonic() - self.last_save > 60 * config.save_minutes
            due, stopping = any_process(self.accelerator, due, self.interruption.requested)
            if due or stopping:
                self._save_last()
            if stopping:
                message = f"stopped after step {state.step} of {self.steps}; resume with --resume"
                raise Interrupted(message, self.interruption.exit_code())
        return FitResult(self.folder.path, state.best, state.history, self.task.test_images)

    def _title(self) -> str:
        per_step = plural(self.setup.images_per_step, "image")
        title = f"{self.task.title()}; {per_step} per step on {self.accelerator.device}"
        if self.epochs > self.config.epochs and not self.config.steps:
            title += (
                f"; {plural(self.epochs, 'epoch')} instead of {self.config.epochs} because of --min-steps "
                f"{self.config.min_steps} (0 for no minimum)"
            )
        if self.state.step >= self.steps:
            return f"{title}; this run has already finished its {plural(self.steps, 'step')}"
        return f"{title}; resuming from step {self.state.step}" if self.state.step else title

    def _batches(self) -> Iterator[TaskBatch]:
        span = (self.state.step, self.steps)
        micro_batches = self.order.micro_batches(*span, self.config.accumulate, self.rank, self.world_size)
        offset = self.config.second_view_offset
        if offset is not None:
            micro_batches = with_second_views(micro_batches, offset or self.epochs)
        return self.task.train_batches(micro_batches)

    def _next_micro_batches(self, batches: Iterator[TaskBatch], throughput: Throughput) -> list[TaskBatch]:
        with throughput.waiting():
            micro_batches = [next(batches) for _ in range(self.config.accumulate)]
        for batch in micro_batches:
            self.unreadable.add(batch.unreadable)
            views = 1 if self.config.second_view_offset is None else 2
            throughput.images += len(batch) // views * self.world_size
        return micro_batches

    # -- between steps ------------------------------------------------------------------------------------------------

    def _end_epoch(self, throughput: Throughput) -> None:
        state, learner = self.state, self.learner
        speed, waiting = throughput.images_per_second(), throughput.waiting_share()
        raw = self._validate(learner.model)
        ema = None if learner.ema is None else self._validate(learner.ema.module)
        report = EpochReport(
            epoch=-(-state.step // self.order.steps_per_epoch),
            step=state.step,
            loss=self._mean(state.losses / ((state.step - 1) % self.order.steps_per_epoch + 1)),
            lr=self._learning_rate(),
            raw=raw.score,
            raw_loss=raw.loss,
            ema=None if ema is None else ema.score,
            ema_loss=None if ema is None else ema.loss,
            images_per_second=speed,
            waiting=waiting,
            seconds=throughput.seconds(),
        )
        self.accelerator.log({key: value for key, value in asdict(report).items() if value is not None}, state.step)
        is_best = state.end_epoch(report)
        if is_best:
            self._save(self.folder.best, learner.weight_tensors())
        self._save_last()
        if self.accelerator.is_main_process:
            self.folder.write_history(state.history)
        self.reporter.epoch(report, is_best)

    def _validate(self, model: nn.Module) -> Validation:
        validation = self.task.validate(model, Share(self.rank, self.world_size, self._sum))
        self.unreadable.add_validation(validation.unreadable)
        return validation

    def _report_step(self, loss: float, throughput: Throughput) -> None:
        if time.monotonic() - self.last_report < _REPORT_SECONDS:
            return
        self.last_report = time.monotonic()
        speed, waiting = throughput.images_per_second(), throughput.waiting_share()
        report = StepReport(self.state.step, loss, self._learning_rate(), speed, waiting)
        self.reporter.step(report)
        values = {"step_loss": loss, "step_lr": report.lr, "img/s": report.images_per_second}
        self.accelerator.log(values, step=self.state.step)

    def _learning_rate(self) -> float:
        return float(self.learner.optimizer.param_groups[0]["lr"])

    def _mean(self, value: float) -> float:
        return float(self._sum(torch.tensor(value, device=self.accelerator.device))) / self.world_size

    def _sum(self, value: Tensor) -> Tensor:
        return self.accelerator.reduce(value, "sum")  # pyright: ignore[reportReturnType]

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _save_last(self) -> None:
        self._save(self.folder.last, {**self.learner.weight_tensors(), **self.learner.optimizer_tensors()})
        self.last_save = time.monotonic()

    def _save(self, path: Path, tensors: dict[str, Tensor]) -> None:
        if self.accelerator.is_main_process:
            save_checkpoint(path, tensors, self._header())
        self.accelerator.wait_for_everyone()

    def _header(self) -> CheckpointHeader:
        scaler, config, state = self.accelerator.scaler, self.config, self.state
        return CheckpointHeader(
            **self.task.header_entries(),
            has_ema=self.learner.ema is not None,
            best_weights=state.better_weights(),
            versions={"spectral_vmamba": __version__, "torch": torch.__version__},
            training={
                "config": to_json_dict(config),
                "state": asdict(state),
                "scaler": scaler.state_dict() if scaler is not None else None,
            },
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        self.learner.restore(checkpoint)
        training = checkpoint.header.training
        self.state = RunState.from_checkpoint(checkpoint)
        if self.accelerator.scaler is not None and training["scaler"]:
            self.accelerator.scaler.load_state_dict(training["scaler"])
