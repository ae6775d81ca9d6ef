"""Report the progress of training: on a terminal, or not at all."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spectral_vmamba.inference.checkpoint import Weights
from spectral_vmamba.utils.extras import require
from spectral_vmamba.utils.progress import (
    LINE_SECONDS,
    Estimate,
    print_line,
    progress_bar,
    progress_bars,
    progress_line,
)
from spectral_vmamba.utils.wording import plural

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class StepReport:
    """`waiting` is the share of time spent waiting for data since the start of the epoch."""

    step: int
    loss: float
    lr: float
    images_per_second: float
    waiting: float


@dataclass(frozen=True)
class EpochReport:
    """`raw` and `ema` are validation scores, 0 to 1, of the raw and of the averaged weights: the accuracy of a
    classifier, the mean IoU of a segmenter."""

    epoch: int
    step: int
    loss: float
    lr: float
    raw: float
    raw_loss: float
    ema: float | None
    ema_loss: float | None
    images_per_second: float
    waiting: float
    seconds: float

    def better_weights(self) -> tuple[Weights, float, float]:
        """Which weights validated better, "raw" or "ema", their score and their loss."""
        if self.ema is None or self.ema_loss is None or (self.ema, -self.ema_loss) < (self.raw, -self.raw_loss):
            return "raw", self.raw, self.raw_loss
        return "ema", self.ema, self.ema_loss


class Reporter:
    """Base reporter: does nothing."""

    def begin(self, title: str, steps: int, done: int, epochs: int) -> None: ...
    def step(self, report: StepReport) -> None: ...
    def epoch(self, report: EpochReport, best: bool) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self) -> None: ...

    def track(self, items: Iterable[Any], description: str, total: int) -> Iterable[Any]:
        """A `utils.progress.Progress` for work before the first step."""
        return items


class SilentReporter(Reporter):
    """For tests, scripts, and all processes but the first."""


class TerminalReporter(Reporter):
    """A progress bar with loss, images per second and time left, and one line per epoch.

    Where the output is not a terminal, a line in place of the bar after every `line_seconds` without another line.
    """

    def __init__(self, console: "Console | None" = None, line_seconds: float = LINE_SECONDS):
        self.console: Console = console or require("rich.console", "train").Console()
        self.bar: Any = None
        self.task: Any = None
        self.steps = self.steps_before = self.epochs = 0
        self.line_seconds = line_seconds
        self.started = self.last_line = time.monotonic()
        self.estimate = Estimate(self.note)

    def begin(self, title: str, steps: int, done: int, epochs: int) -> None:
        self.steps, self.steps_before, self.epochs = steps, done, epochs
        self.note(title)
        self.started, self.estimate = time.monotonic(), Estimate(self.note)
        self.bar = progress_bar(self.console, "loss {task.fields[loss]}  {task.fields[speed]} img/s")
        self.task = self.bar.add_task("steps", total=steps, completed=done, loss="–", speed="–")
        self.bar.start()

    def step(self, report: StepReport) -> None:
        loss, speed = f"{report.loss:.3f}", f"{report.images_per_second:.0f}"
        self.bar.update(self.task, completed=report.step, loss=loss, speed=speed)
        self.estimate.update(report.step, self.steps, f"{self._work()}, without validation")
        now = time.monotonic()
        if not self.console.is_terminal and now - self.last_line >= self.line_seconds:
            line = progress_line("steps", report.step, self.steps, now - self.started, self.steps_before)
            self.note(f"{line}, loss {loss}, {speed} img/s")

    def epoch(self, report: EpochReport, best: bool) -> None:
        if report.epoch < self.epochs:
            self.estimate.state(report.seconds * (self.epochs - report.epoch + 1), self._work())
        average = "" if report.ema is None else f"  averaged weights {report.ema:.2%}"
        self.note(
            f"epoch {report.epoch:>{len(str(self.epochs))}}/{self.epochs}  loss {report.loss:.4f}  "
            f"validation {report.raw:.2%}{average}  {report.images_per_second:.0f} img/s, "
            f"{report.waiting:.1%} waiting for data{'  ← best' if best else ''}"
        )

    def note(self, text: str) -> None:
        self.last_line = time.monotonic()
        print_line(self.console, text)

    def track(self, items: Iterable[Any], description: str, total: int) -> Iterable[Any]:
        with progress_bars(self.console) as progress:
            yield from progress(items, description, total)

    def _work(self) -> str:
        return plural(self.steps - self.steps_before, "training step")

    def end(self) -> None:
        if self.bar is not None:
            self.bar.stop()
