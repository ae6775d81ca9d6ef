"""Tensors in one safetensors file, with a JSON header and a checksum over both in its metadata.

A file may come from anywhere: its header is parsed under limits, and tensors are mapped, so that the size of the file
bounds the memory that reading it takes.
"""

import json
import os
from collections import Counter
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
_MAX_HEADER_BYTES = 2**24  # a thousand tensors with their optimizer state, 20,000 classes and 1,000 epochs: 2 MB
_MAX_DEPTH = 16


class TensorFileError(ValueError):
    """The file is damaged or of another kind."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], kind: str, header: Mapping[str, Any]) -> None:
    """Write atomically: afterwards `path` holds the complete new file, or the previous one."""
    on_cpu = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    stored = json.loads(json.dumps({**header, "kind": kind}))  # as it will be read
    stored["sha256"] = _digest(on_cpu, stored)
    text = json.dumps(stored, ensure_ascii=False)
    if len(text.encode()) > _MAX_HEADER_BYTES // 2:  # safetensors escapes it, and adds the names of the tensors
        raise ValueError(
            f"the header of {path} has {len(text):,} characters; expected at most {_MAX_HEADER_BYTES // 2:,}"
        )
    with atomic_write(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # save_file creates files that only their owner can read
        try:
            save_file(on_cpu, temporary, metadata={_METADATA_KEY: text})
        except SafetensorError as error:
            raise OSError(str(error)) from error
        os.chmod(temporary, mode)


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors, memory-mapped, and the header. Verifying the checksum reads the file once.

    Raises OSError for a file that cannot be opened and TensorFileError for a damaged file or one of another kind.
    """
    header = _read_header(path)
    checksum = header.pop("sha256", None)
    if header.get("kind") != kind:
        raise TensorFileError(f"{path} is damaged, or holds tensors but is not a {kind}")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except SafetensorError as error:
        raise TensorFileError(f"{path} is damaged or not a safetensors file: {error}") from error
    except RuntimeError as error:  # torch cannot map it, e.g. too many open files
        raise OSError(f"cannot read {path}: {error}") from error
    if _digest(tensors, header) != checksum:
        raise TensorFileError(f"{path} is damaged: its contents do not match its checksum")
    return tensors, header


def _read_header(path: Path) -> dict[str, Any]:
    """Our part of the header of a safetensors file: the length of the header in 8 bytes, then JSON."""
    with path.open("rb") as file:  # safetensors reports every unreadable file as missing
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, _MAX_HEADER_BYTES):
            limit = f"expected at most {_MAX_HEADER_BYTES:,} in a file of {size:,} bytes"
            raise TensorFileError(f"{path} is damaged or not a safetensors file: a header of {length:,} bytes; {limit}")
        content = file.read(length)
    try:
        metadata = _parse_object(content.decode()).get("__metadata__", {})
        if not isinstance(metadata, dict) or not isinstance(text := metadata.get(_METADATA_KEY, "{}"), str):
            raise ValueError("its metadata is not a table of texts")
        header = _parse_object(text)
        _check_depth(header)
    except (ValueError, RecursionError) as error:
        raise TensorFileError(f"{path} is damaged or not a safetensors file: {error}") from error
    return header


def _parse_object(text: str) -> dict[str, Any]:
    parsed = json.loads(text, object_pairs_hook=_unique_keys)
    if not isinstance(parsed, dict):
        raise ValueError("its header is not a JSON object")
    return parsed


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Other programs may take the first value of a repeated key, and Python takes the last."""
    result = dict(pairs)
    if len(result) < len(pairs):
        (repeated, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {repeated[:60]!r} appears twice")
    return result


def _check_depth(header: dict[str, Any]) -> None:
    level: list[Any] = [header]
    for _ in range(_MAX_DEPTH):
        level = [
            part
            for value in level
            if isinstance(value, (dict, list))
            for part in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise ValueError(f"its header is nested more than {_MAX_DEPTH} levels deep")


def digest_tensors(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, dtypes, shapes and bytes."""
    return _digest({name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}, {})


def _digest(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> str:
    digest = sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
