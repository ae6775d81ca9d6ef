"""The folder and the state of one training run, and whether a run may be resumed with given settings."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from spectral_vmamba.data.unreadable import UNREADABLE_FILE
from spectral_vmamba.inference.checkpoint import (
    BEST_FILE,
    LAST_FILE,
    Checkpoint,
    CheckpointError,
    Weights,
    load_checkpoint,
)
from spectral_vmamba.training.reporting import EpochReport
from spectral_vmamba.training.run_config import RunConfig
from spectral_vmamba.utils.atomic_files import prepare_folder, write_text
from spectral_vmamba.utils.extras import require
from spectral_vmamba.utils.settings import flatten, from_dict, to_json_dict

Config = TypeVar("Config", bound=RunConfig)
# Settings that do not change the result, and may therefore change when a run is resumed.
_CHANGEABLE = ("output", "tracker", "save_minutes", "workers", "cache_folder")
# Where the images and the teacher are, which may have moved: other ones are refused by their fingerprints.
_MOVABLE = ("data", "val_data", "teacher")


class RunFolder:
    """Checkpoints, settings, history and logs of one run."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.last, self.best, self.logs = self.path / LAST_FILE, self.path / BEST_FILE, self.path / "logs"

    def prepare(self) -> None:
        prepare_folder(self.path, "output folder")

    def write_settings(self, config: RunConfig) -> None:
        text = require("yaml", "train").safe_dump(to_json_dict(config), sort_keys=False, allow_unicode=True)
        write_text(self.path / "config.yaml", text)

    def write_history(self, history: list[EpochReport]) -> None:
        write_text(self.path / "history.json", json.dumps([asdict(report) for report in history], indent=1))

    def remove_unreadable_list(self) -> None:
        """Remove the list of a previous run that saved no checkpoint."""
        (self.path / UNREADABLE_FILE).unlink(missing_ok=True)

    def checkpoint(self, resume: bool) -> Checkpoint | None:
        """The checkpoint to resume from; None for a new run."""
        if not self.last.exists():
            return None
        if not resume:
            raise ValueError(
                f"{self.path} already contains a run; resume it with --resume (resume=True), or choose another output"
            )
        try:
            return load_checkpoint(self.last)
        except CheckpointError as error:
            raise CheckpointError(
                f"{error}; start a new run, from the best epoch with --initial {self.best}"
            ) from error


@dataclass
class RunState:
    """The progress of a run, as stored in checkpoints.

    `losses` is the sum over the steps of the current epoch. `best` is the report of the best epoch, with `weights`
    ("ema" or "raw"), their validation `score` and its loss, which decides between equal scores.
    """

    step: int = 0
    losses: float = 0.0
    history: list[EpochReport] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "RunState":
        with _readable(checkpoint):
            stored = checkpoint.header.training["state"]
            history = [from_dict(EpochReport, report) for report in stored["history"]]
            return cls(stored["step"], stored["losses"], history, stored["best"])

    def end_epoch(self, report: EpochReport) -> bool:
        """Record the end of an epoch; return whether it is the best so far."""
        self.losses = 0.0
        self.history.append(report)
        weights, score, loss = report.better_weights()
        if self.best and (score, -loss) <= (self.best["score"], -self.best["score_loss"]):
            return False
        self.best = {**asdict(report), "weights": weights, "score": score, "score_loss": loss}
        return True

    def better_weights(self) -> Weights:
        """Which weights validated better at the last finished epoch; the raw ones before the first."""
        return self.history[-1].better_weights()[0] if self.history else "raw"

    def epochs_without_improvement(self) -> int:
        return len(self.history) - self.best["epoch"] if self.best else 0


@contextmanager
def _readable(checkpoint: Checkpoint) -> Iterator[None]:
    """Report a state that this version did not write."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise CheckpointError(f"{checkpoint.path} cannot be resumed from: {error!r}") from error


def resume_settings(config: Config, checkpoint: Checkpoint, folder: Path) -> Config:
    """The settings of the run. Given settings must be the same or left at their defaults; a few may change."""
    kind = type(config)
    with _readable(checkpoint):
        stored = from_dict(kind, checkpoint.header.training["config"])
        described = stored.describes(checkpoint.header)
    if not described:
        raise CheckpointError(f"{checkpoint.path} has settings of another model than the one of its weights")
    config = config.with_choices_of(stored)
    given, previous, defaults = flatten(config), flatten(stored), flatten(kind())
    changeable = [name for name in _CHANGEABLE if name in given]
    changeable += [name for name in _MOVABLE if given.get(name)]
    changed = [
        key for key in given if key not in changeable and given[key] != previous[key] and given[key] != defaults[key]
    ]
    if changed:
        differences = ", ".join(f"{key} = {previous[key]} (now {given[key]})" for key in changed)
        raise ValueError(f"the run in {folder} was started with {differences}; omit them to resume, or start a new run")
    current = to_json_dict(config)
    return from_dict(kind, {**to_json_dict(stored), **{key: current[key] for key in changeable}})
