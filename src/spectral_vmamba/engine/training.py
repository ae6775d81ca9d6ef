"""Training. Randomness is a function of (seed, step), so that a run can be cut anywhere and go on as if it had not."""

import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from timm.data.mixup import Mixup
from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from torch import Tensor

from spectral_vmamba._version import __version__
from spectral_vmamba.analysis.scores import top_share
from spectral_vmamba.data.images import normalise
from spectral_vmamba.data.loading import Batch, Order, RandomViews, load
from spectral_vmamba.data.randomness import STEP, generators_kept, reseed, seed_of
from spectral_vmamba.engine.answers import answers
from spectral_vmamba.engine.checkpoint import Checkpoint, save_checkpoint
from spectral_vmamba.engine.config import TrainConfig
from spectral_vmamba.engine.interruption import Interrupted, Interruption, interruptible
from spectral_vmamba.engine.learner import cosine
from spectral_vmamba.engine.reporting import Bars, EpochReport, Reporter, Silent, StepReport
from spectral_vmamba.engine.run_folder import RunFolder, settings_to_go_on
from spectral_vmamba.engine.setup import Setup, set_up

_REPORT_SECONDS = 0.5


class TrainingError(ArithmeticError):
    """The loss or the gradient is no longer a number."""


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
    folder = RunFolder(config.output)
    folder.prepare()
    checkpoint = folder.checkpoint(resume)
    if checkpoint is not None:
        config = settings_to_go_on(config, checkpoint, folder.path)
    setup = set_up(config, folder)
    reporter = reporter or Bars()
    with interruptible() as interruption, generators_kept():
        run = _Run(config, setup, folder, reporter if setup.accelerator.is_main_process else Silent(), interruption)
        if checkpoint is not None:
            run.restore(checkpoint)
        try:
            return run.through()
        except RuntimeError as error:
            raise _explained(error, folder) from error
        finally:
            run.reporter.end()
            setup.accelerator.end_training()


class _Run:
    def __init__(
        self, config: TrainConfig, setup: Setup, folder: RunFolder, reporter: Reporter, interruption: Interruption
    ):
        self.config, self.setup, self.folder = config, setup, folder
        self.reporter, self.interruption = reporter, interruption
        self.accelerator, self.learner = setup.accelerator, setup.learner
        self.order = Order(len(setup.train), setup.pictures_per_step, config.seed)
        self.steps = config.epochs * self.order.steps_per_epoch
        scale = setup.pictures_per_step / 512
        self.schedule = cosine(setup.learner.optimiser, config.optimiser, scale, self.order.steps_per_epoch, self.steps)
        self.erase = config.augment.eraser(str(setup.accelerator.device))
        self.mixup, self.loss = _loss(config, len(setup.train.classes))
        self.step = 0
        self.history: list[EpochReport] = []
        self.best: dict[str, Any] = {}
        self.losses = 0.0  # of the epoch's steps so far
        self.broken: set[int] = set()
        self.saved = time.monotonic()

    # -- the loop ---------------------------------------------------------------------------------------------------

    def through(self) -> FitResult:
        model = sum(parameter.numel() for parameter in self.learner.model.parameters() if parameter.requires_grad)
        self.reporter.begin(
            f"{self.config.model} ({model:,} trainable parameters), {len(self.setup.train):,} pictures of "
            f"{len(self.setup.train.classes)} classes to train on, {len(self.setup.val):,} to validate on; "
            f"{self.setup.pictures_per_step} a step on {self.accelerator.device}"
            + (f"; going on from step {self.step}" if self.step else ""),
            self.steps,
            self.step,
            self.config.epochs,
        )
        clock = _Clock()
        reported = time.monotonic()
        batches = self._batches()
        while self.step < self.steps and not self._out_of_patience():
            loss = self._one_step(batches, clock)
            if time.monotonic() - reported > _REPORT_SECONDS:
                reported = time.monotonic()
                self._report_step(loss, clock)
            if self.step % self.order.steps_per_epoch == 0:
                self._end_epoch(clock)
                clock = _Clock()
            elif time.monotonic() - self.saved > 60 * self.config.save_minutes:
                self._save_last()
            if self._asked_to_stop():
                self._save_last()
                where = f"stopped after step {self.step} of {self.steps}; go on with --resume"
                raise Interrupted(where, self.interruption.exit_code())
        return FitResult(self.folder.path, self.best, self.history)

    def _batches(self) -> Iterator[Batch]:
        accelerator = self.accelerator
        views = RandomViews(self.setup.train, self.config.augment.view(self.setup.preprocessing), self.config.seed)
        parts = self.order.parts(
            self.step, self.steps, self.config.accumulate, accelerator.process_index, accelerator.num_processes
        )
        return iter(load(views, parts, self.setup.workers, pin_memory=accelerator.device.type == "cuda"))

    def _one_step(self, batches: Iterator[Batch], clock: "_Clock") -> float:
        self.schedule.step_update(self.step)
        total = 0.0
        for part in range(self.config.accumulate):
            with clock.waiting():
                batch = next(batches)
            self._count_broken(batch)
            self._reseed(part)
            with self.accelerator.accumulate(self.setup.forward):
                loss = self._loss_of(batch)
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self._update(batch)
            total += float(loss.detach())
            clock.pictures += len(batch.labels) * self.accelerator.num_processes
        self.step += 1
        if self.learner.ema is not None:
            self.learner.ema.update(self.learner.model, step=self.step)
        self.losses += total / self.config.accumulate
        return total / self.config.accumulate

    def _loss_of(self, batch: Batch) -> Tensor:
        device, preprocessing = self.accelerator.device, self.setup.preprocessing
        labels = batch.labels.to(device, non_blocking=True)
        pixels = batch.views.to(device, non_blocking=True)
        views = self.erase(normalise(pixels, preprocessing.mean, preprocessing.std))
        if self.mixup is not None and len(views) > 1:
            even = len(views) // 2 * 2  # it mixes a batch with itself backwards, two halves of a size
            views, labels = self.mixup(views[:even], labels[:even])
        with self.accelerator.autocast():
            logits = self.setup.forward(views)
        loss = self.loss(logits.float(), labels)
        if not torch.isfinite(loss):
            self._stop("the loss", batch)
        return loss

    def _update(self, batch: Batch) -> None:
        norm = self.accelerator.clip_grad_norm_(self.learner.model.parameters(), self.config.optimiser.clip or math.inf)
        if norm is not None and not torch.isfinite(torch.as_tensor(norm)) and self.config.precision != "fp16":
            self._stop("the gradient", batch)
        self.setup.optimiser.step()
        self.setup.optimiser.zero_grad()

    def _reseed(self, part: int) -> None:
        key = (STEP, self.config.seed, self.step, part, self.accelerator.process_index)
        reseed(*key)
        if self.accelerator.device.type == "cuda":
            torch.cuda.manual_seed(seed_of(*key))

    def _stop(self, what: str, batch: Batch) -> None:
        names = ", ".join(self.setup.train.names[i] for i in batch.pictures)
        kept = f"; the last good checkpoint is {self.folder.last}" if self.folder.last.exists() else ""
        raise TrainingError(f"{what} is not a finite number at step {self.step + 1}{kept}. The batch: {names}")

    # -- between steps ----------------------------------------------------------------------------------------------

    def _end_epoch(self, clock: "_Clock") -> None:
        learner = self.learner
        raw, raw_loss = self._validate(learner.model)
        ema, ema_loss = (None, None) if learner.ema is None else self._validate(learner.ema.module)
        mean_loss = self.losses / self.order.steps_per_epoch
        report = EpochReport(
            epoch=self.step // self.order.steps_per_epoch,
            step=self.step,
            loss=self._mean(mean_loss),
            lr=self._lr(),
            raw=raw,
            raw_loss=raw_loss,
            ema=ema,
            ema_loss=ema_loss,
            pictures_per_second=clock.pictures_per_second(),
            waiting=clock.waiting_share(),
            seconds=clock.seconds(),
        )
        self.losses = 0.0
        self.history.append(report)
        self.accelerator.log({key: value for key, value in asdict(report).items() if value is not None}, step=self.step)
        is_best = self._better(report)
        if is_best:
            averaged = ema is not None and (ema, -(ema_loss or 0)) >= (raw, -raw_loss)
            self.best = {**asdict(report), "weights": "ema" if averaged else "raw", "top1": report.best}
            self._save(self.folder.best, learner.tensors())
        self._save_last()
        if self.accelerator.is_main_process:
            self.folder.write_text("history.json", json.dumps([asdict(each) for each in self.history], indent=1))
        self.reporter.epoch(report, is_best)

    def _better(self, report: EpochReport) -> bool:
        return not self.best or report.best > self.best["top1"]

    def _out_of_patience(self) -> bool:
        if not self.config.patience or not self.best:
            return False
        return len(self.history) - self.best["epoch"] >= self.config.patience

    def _validate(self, model: torch.nn.Module) -> tuple[float, float]:
        accelerator = self.accelerator
        said = answers(
            model,
            self.setup.val,
            self.setup.preprocessing,
            self.config.batch_size,
            self.setup.workers,
            accelerator.device,
            accelerator.process_index,
            accelerator.num_processes,
            total=lambda partial: accelerator.reduce(partial, "sum"),  # pyright: ignore
        )
        if said.broken and not self.history:
            names = ", ".join(self.setup.val.names[i] for i in said.broken[:10])
            self.reporter.note(f"{len(said.broken)} validation pictures cannot be read and are left out: {names}")
        return top_share(said.logits, said.labels, 1), float(
            torch.nn.functional.cross_entropy(said.logits, said.labels)
        )

    def _count_broken(self, batch: Batch) -> None:
        new = set(batch.broken) - self.broken
        if not new:
            return
        self.broken |= new
        names = [self.setup.train.names[i] for i in sorted(self.broken)]
        if self.accelerator.is_main_process:
            self.folder.write_text("broken.txt", "\n".join(names) + "\n")
        for i in sorted(new):
            self.reporter.note(f"cannot be read, left out: {self.setup.train.names[i]}")
        if len(self.broken) > self.config.max_broken * len(self.setup.train):
            raise ValueError(
                f"{len(self.broken)} of {len(self.setup.train)} training pictures cannot be read, more than "
                f"{self.config.max_broken:.2%} (max_broken): {', '.join(names[:10])}"
                + (
                    f" and {len(names) - 10} more, listed in {self.folder.path / 'broken.txt'}"
                    if len(names) > 10
                    else ""
                )
            )

    def _asked_to_stop(self) -> bool:
        asked = self.interruption.signal is not None
        if self.accelerator.num_processes == 1:
            return asked
        return bool(self._total(torch.tensor(float(asked), device=self.accelerator.device)) > 0)

    def _report_step(self, loss: float, clock: "_Clock") -> None:
        speed = clock.pictures_per_second()
        self.reporter.step(StepReport(self.step, loss, self._lr(), speed, clock.waiting_share()))
        self.accelerator.log({"step_loss": loss, "step_lr": self._lr(), "img/s": speed}, step=self.step)

    def _lr(self) -> float:
        return float(self.learner.optimiser.param_groups[0]["lr"])

    def _mean(self, value: float) -> float:
        return float(self._total(torch.tensor(value, device=self.accelerator.device))) / self.accelerator.num_processes

    def _total(self, value: Tensor) -> Tensor:
        return self.accelerator.reduce(value, "sum")  # pyright: ignore[reportReturnType]

    # -- to a checkpoint and back -----------------------------------------------------------------------------------

    def _save_last(self) -> None:
        self._save(self.folder.last, {**self.learner.tensors(), **self.learner.optimiser_tensors()})
        self.saved = time.monotonic()

    def _save(self, path: Path, tensors: dict[str, Tensor]) -> None:
        if self.accelerator.is_main_process:
            save_checkpoint(path, tensors, self._facts())
        self.accelerator.wait_for_everyone()

    def _facts(self) -> dict[str, Any]:
        scaler = getattr(self.accelerator, "scaler", None)
        return {
            "versions": {"spectral_vmamba": __version__, "torch": torch.__version__},
            "config": self.config.as_dict(),
            "classes": list(self.setup.train.classes),
            "preprocessing": asdict(self.setup.preprocessing),
            "fingerprints": self.setup.fingerprints,
            "step": self.step,
            "losses": self.losses,
            "history": [asdict(report) for report in self.history],
            "best": self.best,
            "scaler": scaler.state_dict() if scaler is not None else None,
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        facts = checkpoint.facts
        if facts["fingerprints"] != self.setup.fingerprints:
            raise ValueError(
                f"the pictures are not those that the run in {self.folder.path} was begun with (names, sizes, labels "
                "or classes differ); bring these back to go on, or begin a new run"
            )
        self.learner.restore(checkpoint)
        self.step, self.losses, self.best = facts["step"], facts["losses"], facts["best"]
        self.history = [EpochReport(**report) for report in facts["history"]]
        scaler = getattr(self.accelerator, "scaler", None)
        if scaler is not None and facts["scaler"]:
            scaler.load_state_dict(facts["scaler"])


class _Clock:
    """Time since it was made, and how much of it went into waiting."""

    def __init__(self):
        self.start, self.waited, self.pictures = time.perf_counter(), 0.0, 0

    def waiting(self) -> "_Wait":
        return _Wait(self)

    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def waiting_share(self) -> float:
        return self.waited / max(self.seconds(), 1e-9)

    def pictures_per_second(self) -> float:
        return self.pictures / max(self.seconds(), 1e-9)


@dataclass
class _Wait:
    clock: _Clock
    start: float = 0.0

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.clock.waited += time.perf_counter() - self.start


def _loss(config: TrainConfig, classes: int) -> tuple[Mixup | None, torch.nn.Module]:
    augment = config.augment
    if augment.mixup or augment.cutmix:
        mixup = Mixup(augment.mixup, augment.cutmix, label_smoothing=augment.smoothing, num_classes=classes)
        return mixup, SoftTargetCrossEntropy()
    return None, LabelSmoothingCrossEntropy(augment.smoothing)


def _explained(error: RuntimeError, folder: RunFolder) -> Exception:
    """Errors of processes that died, in words."""
    text = str(error)
    go_on = f"go on with --resume (output {folder.path})"
    if "DataLoader worker" in text:
        return OSError(f"a process that prepares pictures died, perhaps for lack of memory; {go_on}. {text}")
    if any(word in text for word in ("Connection closed by peer", "Connection reset", "gloo", "NCCL", "peer")):
        return OSError(f"another process of this job died; {go_on}. {text.splitlines()[0]}")
    return error
