"""A checkpoint is one safetensors file: tensors, and in its header a JSON text with everything else.

One file is written whole or not at all: into a temporary file beside it, flushed to the disk, then renamed.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

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
    plain = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    header = {**facts, "kind": KIND, "format": FORMAT, "sha256": _digest(plain)}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.touch()
        mode = temporary.stat().st_mode  # save_file makes files that only their owner can read
        save_file(plain, temporary, metadata={"spectral_vmamba": json.dumps(header, ensure_ascii=False)})
        os.chmod(temporary, mode)
        _flush(temporary)
        os.replace(temporary, path)
        _flush(path.parent)
    except (OSError, SafetensorError) as error:
        kept = f"; {path.name} of before is kept" if path.exists() else ""
        raise OSError(f"cannot write {path}: {_reason(error)}{kept}") from error
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Temporary files of writers that were killed."""
    for temporary in folder.glob(".*.safetensors.*.tmp"):
        temporary.unlink(missing_ok=True)


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
        with safe_open(path, framework="pt", device="cpu") as stored:
            facts = json.loads((stored.metadata() or {}).get("spectral_vmamba", "{}"))
            if facts.get("kind") != KIND:
                raise CheckpointError(f"{path} holds tensors, but is no checkpoint of spectral-vmamba train")
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} is damaged or no safetensors file: {error}") from error
    if facts["format"] > FORMAT:
        raise CheckpointError(f"{path} was written by a newer version ({facts.get('versions')}); update this package")
    if _digest(tensors) != facts["sha256"]:
        raise CheckpointError(f"{path} is damaged: its contents do not match its checksum")
    return Checkpoint(tensors, facts)


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error: Exception) -> str:
    text = str(error)
    return "no space left on the disk" if "No space left" in text or "os error 28" in text else text
