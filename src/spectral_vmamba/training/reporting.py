"""Saying how training goes, to a person or to no one."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@dataclass(frozen=True)
class StepReport:
    step: int
    loss: float
    lr: float
    images_per_second: float
    waiting: float  # share of the time since the last report that went into waiting for images


@dataclass(frozen=True)
class EpochReport:
    """`raw` and `ema` are accuracies on the validation images, 0 to 1."""

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

    def better(self) -> tuple[str, float, float]:
        """Which of the two validated better, its accuracy and its loss."""
        raw = ("raw", self.raw, self.raw_loss)
        if self.ema is None or self.ema_loss is None or (self.ema, -self.ema_loss) < (self.raw, -self.raw_loss):
            return raw
        return "ema", self.ema, self.ema_loss


class Reporter:
    """Says nothing; others say more."""

    def begin(self, title: str, steps: int, done: int, epochs: int) -> None: ...
    def step(self, report: StepReport) -> None: ...
    def epoch(self, report: EpochReport, best: bool) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self) -> None: ...

    def track(self, items: Iterable[Any], description: str, total: int) -> Iterable[Any]:
        """The items, while saying how far they are: for work before the first step."""
        return items


class Silent(Reporter):
    """For tests, scripts, and all processes but the first."""


class Bars(Reporter):
    """A progress bar with loss, images per second and time left, and a line for every epoch."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console()
        self.progress: Any = None
        self.task: TaskID | None = None
        self.epochs = 0

    def begin(self, title: str, steps: int, done: int, epochs: int) -> None:
        self.epochs = epochs
        self.note(title)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("loss {task.fields[loss]}  {task.fields[speed]} img/s"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.task = self.progress.add_task("steps", total=steps, completed=done, loss="–", speed="–")
        self.progress.start()

    def step(self, report: StepReport) -> None:
        loss, speed = f"{report.loss:.3f}", f"{report.images_per_second:.0f}"
        self.progress.update(self.task, completed=report.step, loss=loss, speed=speed)

    def epoch(self, report: EpochReport, best: bool) -> None:
        average = "" if report.ema is None else f"  averaged weights {report.ema:.2%}"
        self.note(
            f"epoch {report.epoch:>{len(str(self.epochs))}}/{self.epochs}  loss {report.loss:.4f}  "
            f"validation {report.raw:.2%}{average}  {report.images_per_second:.0f} img/s, "
            f"{report.waiting:.1%} waiting for images{'  ← best' if best else ''}"
        )

    def note(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def track(self, items: Iterable[Any], description: str, total: int) -> Iterable[Any]:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        left = (TextColumn("left"), TimeRemainingColumn())
        with Progress(*columns, *left, console=self.console, transient=True, disable=not self.console.is_terminal) as p:
            yield from p.track(items, total=total, description=description)

    def end(self) -> None:
        if self.progress is not None:
            self.progress.stop()
