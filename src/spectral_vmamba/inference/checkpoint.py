"""A checkpoint is one file of tensors with everything else in its header."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from spectral_vmamba.utils.tensor_file import TensorFileError, read_tensors, write_tensors

KIND = "spectral-vmamba checkpoint"
FORMAT = 1


class CheckpointError(ValueError):
    """A file that is no checkpoint of ours, or a damaged one."""


@dataclass(frozen=True)
class Checkpoint:
    tensors: dict[str, Tensor]
    facts: dict[str, Any]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors below a prefix, without it."""
        start = prefix + "."
        return {name.removeprefix(start): tensor for name, tensor in self.tensors.items() if name.startswith(start)}


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Either the whole new file is at `path` afterwards, or what was there before."""
    write_tensors(path, tensors, KIND, {**facts, "format": FORMAT})


def checkpoint_path(path: str | Path) -> Path:
    """A checkpoint's file, of the best epoch if the folder of a run is named."""
    path = Path(path)
    if not path.is_dir():
        return path
    if not (path / "best.safetensors").exists() and (path / "last.safetensors").exists():
        raise ValueError(f"the run in {path} has not finished an epoch yet; go on with it by --resume")
    return path / "best.safetensors"


def load_checkpoint(path: Path) -> Checkpoint:
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint at {path}")
    try:
        tensors, facts = read_tensors(path, KIND)
    except TensorFileError as error:
        raise CheckpointError(str(error)) from error
    if facts["format"] > FORMAT:
        raise CheckpointError(f"{path} was written by a newer version ({facts.get('versions')}); update this package")
    return Checkpoint(tensors, facts)
