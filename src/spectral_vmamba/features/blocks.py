"""Blocks: files of rows, each with a checksum. A folder of blocks is a store that only grows."""

import os
from collections.abc import Callable, Container
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

from torch import Tensor

from spectral_vmamba.utils.atomic_files import remove_temporary_files
from spectral_vmamba.utils.progress import Progress
from spectral_vmamba.utils.tensor_file import TensorFileError, read_tensors, write_tensors

KIND = "spectral-vmamba feature block"
Block = dict[str, Tensor]
_LONGEST_WRITE_SECONDS = 3600.0  # a block has a few megabytes


def new_block_name() -> str:
    """A name that no other process chooses."""
    return uuid4().hex


def write_block(folder: Path, name: str, block: Block) -> Block:
    """Write a block and return it as stored, memory-mapped."""
    path = folder / f"{name}.safetensors"
    write_tensors(path, block, KIND, {})
    return read_tensors(path, KIND)[0]


def read_blocks(
    folder: Path, known: Container[str], note: Callable[[str], None], progress: Progress, description: str
) -> tuple[dict[str, Block], list[str]]:
    """Return the intact blocks that are not yet known, by name and memory-mapped, and the names of damaged ones.

    Damaged blocks are deleted, with a note: they can be computed again. Files that cannot be opened are ignored, with a
    note. Other processes may write to the same folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    remove_temporary_files(folder, older_than=_LONGEST_WRITE_SECONDS)
    paths = [path for path in sorted(folder.glob("*.safetensors")) if path.stem not in known]
    if not paths:
        return {}, []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(progress(pool.map(_read, paths), description, len(paths)))
    blocks, damaged = {}, []
    for path, result in zip(paths, results, strict=True):
        if isinstance(result, TensorFileError):
            note(f"{result}; it will be computed again")
            path.unlink(missing_ok=True)
            damaged.append(path.stem)
        elif isinstance(result, OSError):
            note(f"{path} cannot be opened and is ignored: {result.strerror or result}")
        else:
            blocks[path.stem] = result
    return blocks, damaged


def _read(path: Path) -> Block | TensorFileError | OSError:
    try:
        return read_tensors(path, KIND)[0]
    except (TensorFileError, OSError) as error:
        return error
