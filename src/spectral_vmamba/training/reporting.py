"""Report the progress of training: on a terminal, or not at all."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spectral_vmamba.inference.checkpoint import Weights
from spectral_vmamba.utils.extras import require
from spectral_vmamba.utils.progress import progress_bar, progress_bars

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
    """`raw` and `ema` are validation accuracies, 0 to 1, of the raw and of the averaged weights."""

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
        """Which weights validated better, "raw" or "ema", their accuracy and their loss."""
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
    """A progress bar with loss, images per second and time left, and one line per epoch."""

    def __init__(self, console: "Console | None" = None):
        self.console: Console = console or require("rich.console", "train").Console()
        self.bar: Any = None
        self.task: Any = None
        self.epochs = 0

    def begin(self, title: str, steps: int, done: int, epochs: int) -> None:
        self.epochs = epochs
        self.note(title)
        self.bar = progress_bar(self.console, "loss {task.fields[loss]}  {task.fields[speed]} img/s")
        self.task = self.bar.add_task("steps", total=steps, completed=done, loss="–", speed="–")
        self.bar.start()

    def step(self, report: StepReport) -> None:
        loss, speed = f"{report.loss:.3f}", f"{report.images_per_second:.0f}"
        self.bar.update(self.task, completed=report.step, loss=loss, speed=speed)

    def epoch(self, report: EpochReport, best: bool) -> None:
        average = "" if report.ema is None else f"  averaged weights {report.ema:.2%}"
        self.note(
            f"epoch {report.epoch:>{len(str(self.epochs))}}/{self.epochs}  loss {report.loss:.4f}  "
            f"validation {report.raw:.2%}{average}  {report.images_per_second:.0f} img/s, "
            f"{report.waiting:.1%} waiting for data{'  ← best' if best else ''}"
        )

    def note(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def track(self, items: Iterable[Any], description: str, total: int) -> Iterable[Any]:
        with progress_bars(self.console) as progress:
            yield from progress(items, description, total)

    def end(self) -> None:
        if self.bar is not None:
            self.bar.stop()
