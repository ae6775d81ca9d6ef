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

from spectral_vmamba.utils.atomic_files import written_whole


class TensorFileError(ValueError):
    """A file of another kind, or a damaged one."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], kind: str, facts: Mapping[str, Any]) -> None:
    """Either the whole new file is at `path` afterwards, or what was there before."""
    plain = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    header = json.loads(json.dumps({**facts, "kind": kind}))  # as it will be read
    header["sha256"] = _digest(plain, header)
    with written_whole(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # save_file makes files that only their owner can read
        try:
            save_file(plain, temporary, metadata={"spectral_vmamba": json.dumps(header, ensure_ascii=False)})
        except SafetensorError as error:
            raise OSError(str(error)) from error
        os.chmod(temporary, mode)


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors, mapped into memory, and the facts. The checksum is checked, which reads the file once.

    A file that cannot be opened at all is an OSError, not a damaged file.
    """
    path.open("rb").close()  # safetensors says of every file that it may not read that there is none
    try:
        with safe_open(path, framework="pt", device="cpu") as stored:
            header = json.loads((stored.metadata() or {}).get("spectral_vmamba", "{}"))
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TensorFileError(f"{path} is damaged or no safetensors file: {error}") from error
    except RuntimeError as error:  # torch cannot map it: too many open files, for one
        raise OSError(f"cannot read {path}: {error}") from error
    facts = header if isinstance(header, dict) else {}
    checksum = facts.pop("sha256", None)
    if facts.get("kind") != kind:
        raise TensorFileError(f"{path} is damaged, or holds tensors but is no {kind}")
    if _digest(tensors, facts) != checksum:
        raise TensorFileError(f"{path} is damaged: its contents do not match its checksum")
    return tensors, facts


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """Tells sets of tensors apart by names, types, shapes and bytes."""
    return _digest({name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}, {})


def _digest(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> str:
    digest = sha256(json.dumps(facts, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
