"""Tensors in one safetensors file, with a JSON text of facts and a checksum in its header."""

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from spectral_vmamba.engine.files import written_whole


class TensorFileError(ValueError):
    """A file of another kind, or a damaged one."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], kind: str, facts: Mapping[str, Any]) -> None:
    """Either the whole new file is at `path` afterwards, or what was there before."""
    plain = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    header = {**facts, "kind": kind, "sha256": _digest(plain)}
    with written_whole(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # save_file makes files that only their owner can read
        try:
            save_file(plain, temporary, metadata={"spectral_vmamba": json.dumps(header, ensure_ascii=False)})
        except SafetensorError as error:
            raise OSError(str(error)) from error
        os.chmod(temporary, mode)


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors, mapped into memory, and the facts. The checksum is checked, which reads the file once."""
    try:
        with safe_open(path, framework="pt", device="cpu") as stored:
            facts = json.loads((stored.metadata() or {}).get("spectral_vmamba", "{}"))
            if facts.get("kind") != kind:
                raise TensorFileError(f"{path} holds tensors, but is no {kind}")
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise TensorFileError(f"{path} is damaged or no safetensors file: {error}") from error
    if _digest(tensors) != facts["sha256"]:
        raise TensorFileError(f"{path} is damaged: its contents do not match its checksum")
    return tensors, facts


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """Tells sets of tensors apart by names and bytes."""
    return _digest({name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()})


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
