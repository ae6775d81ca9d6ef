"""The folder of one training run: settings, checkpoints, history. And whether a run may go on in it."""

import json
import tempfile
from pathlib import Path
from typing import Any

import yaml

from spectral_vmamba.inference.checkpoint import Checkpoint, CheckpointError, load_checkpoint
from spectral_vmamba.training.train_config import TrainConfig
from spectral_vmamba.utils.atomic_files import remove_leftovers, write_text

BROKEN = "broken.txt"
# Settings that do not change what is learned, and so may change when a run goes on.
_FREE = ("output", "tracker", "save_minutes", "workers", "cache_folder")


class RunFolder:
    def __init__(self, path: str | Path):
        self.path = Path(path)

    @property
    def last(self) -> Path:
        return self.path / "last.safetensors"

    @property
    def best(self) -> Path:
        return self.path / "best.safetensors"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def prepare(self) -> None:
        """Make the folder and try whether it can be written, before any work is done."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path) as probe:
                probe.write(b"can this folder be written?")
        except OSError as error:
            raise OSError(f"cannot write to the output folder {self.path}: {error.strerror or error}") from error
        remove_leftovers(self.path)

    def write_settings(self, config: TrainConfig) -> None:
        self.write_text(
            "config.yaml", yaml.safe_dump(_as_stored(config.as_dict()), sort_keys=False, allow_unicode=True)
        )

    def forget_broken(self) -> None:
        """The list of an earlier run that came to nothing."""
        (self.path / BROKEN).unlink(missing_ok=True)

    def write_text(self, name: str, text: str) -> None:
        """Whole or not at all, as checkpoints are."""
        write_text(self.path / name, text)

    def checkpoint(self, resume: bool) -> Checkpoint | None:
        """What a run goes on from; None for a new run."""
        if not self.last.exists():
            return None
        if not resume:
            raise ValueError(
                f"{self.path} already holds a run; go on with it by --resume (resume=True), or choose another output"
            )
        try:
            return load_checkpoint(self.last)
        except CheckpointError as error:
            raise CheckpointError(
                f"{error}; begin a new run, from the best epoch with --initial {self.best}"
            ) from error


def settings_to_go_on(config: TrainConfig, checkpoint: Checkpoint, where: Path) -> TrainConfig:
    """The run's own settings. Those now given must be the same, or left at their defaults; a few may change."""
    stored = checkpoint.facts["config"]
    given, had, usual = (_flat(_as_stored(each)) for each in (config.as_dict(), stored, TrainConfig().as_dict()))
    changed = [key for key in given if key not in _FREE and given[key] != had[key] and given[key] != usual[key]]
    if changed:
        told = ", ".join(f"{key} = {had[key]} (now {given[key]})" for key in changed)
        raise ValueError(f"the run in {where} was begun with {told}; leave these out to go on, or begin a new run")
    return TrainConfig.from_dict({**stored, **{key: given[key] for key in _FREE}})


def _as_stored(settings: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(settings))


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        grouped = name in ("augment", "optimizer")
        flat |= {f"{name}.{key}": part for key, part in value.items()} if grouped else {name: value}
    return flat
