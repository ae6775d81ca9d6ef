"""Tensors in one safetensors file, with a JSON header and a checksum over both in its metadata."""

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

from spectral_vmamba.utils.atomic_files import atomic_write

_METADATA_KEY = "spectral_vmamba"


class TensorFileError(ValueError):
    """The file is damaged or of another kind."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], kind: str, header: Mapping[str, Any]) -> None:
    """Write atomically: afterwards `path` holds the complete new file, or the previous one."""
    on_cpu = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    stored = json.loads(json.dumps({**header, "kind": kind}))  # as it will be read
    stored["sha256"] = _digest(on_cpu, stored)
    with atomic_write(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # save_file creates files that only their owner can read
        try:
            save_file(on_cpu, temporary, metadata={_METADATA_KEY: json.dumps(stored, ensure_ascii=False)})
        except SafetensorError as error:
            raise OSError(str(error)) from error
        os.chmod(temporary, mode)


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors, memory-mapped, and the header. Verifying the checksum reads the file once.

    Raises OSError for a file that cannot be opened and TensorFileError for a damaged file or one of another kind.
    """
    path.open("rb").close()  # safetensors reports every unreadable file as missing
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            stored = json.loads((file.metadata() or {}).get(_METADATA_KEY, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TensorFileError(f"{path} is damaged or not a safetensors file: {error}") from error
    except RuntimeError as error:  # torch cannot map it, e.g. too many open files
        raise OSError(f"cannot read {path}: {error}") from error
    header = stored if isinstance(stored, dict) else {}
    checksum = header.pop("sha256", None)
    if header.get("kind") != kind:
        raise TensorFileError(f"{path} is damaged, or holds tensors but is not a {kind}")
    if _digest(tensors, header) != checksum:
        raise TensorFileError(f"{path} is damaged: its contents do not match its checksum")
    return tensors, header


def digest_tensors(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, dtypes, shapes and bytes."""
    return _digest({name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}, {})


def _digest(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> str:
    digest = sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
