"""Blocks: files of rows that belong together, each with its checksum; a folder of them is a store that only grows."""

import os
from collections.abc import Callable, Container
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

from torch import Tensor

from spectral_vmamba.utils.atomic_files import remove_leftovers
from spectral_vmamba.utils.progress import Progress
from spectral_vmamba.utils.tensor_file import TensorFileError, read_tensors, write_tensors

KIND = "spectral-vmamba block of a cache"
Block = dict[str, Tensor]
_SECONDS_TO_WRITE = 3600.0  # a block is some megabytes


def new_name() -> str:
    """Of a block: no two processes choose the same."""
    return uuid4().hex


def write_block(folder: Path, name: str, block: Block) -> Block:
    """The block as it was written, mapped into memory."""
    path = folder / f"{name}.safetensors"
    write_tensors(path, block, KIND, {})
    return read_tensors(path, KIND)[0]


def read_blocks(
    folder: Path, known: Container[str], note: Callable[[str], None], progress: Progress, told: str
) -> tuple[dict[str, Block], list[str]]:
    """All whole blocks by name, but for those that are known, mapped into memory; and the names of damaged ones.

    Damaged ones are removed, with a note: they can be made again. Those that cannot be opened are left alone. Others
    may be writing into the same folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder, _SECONDS_TO_WRITE)
    paths = [path for path in sorted(folder.glob("*.safetensors")) if path.stem not in known]
    if not paths:
        return {}, []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        read = list(progress(pool.map(_read, paths), told, len(paths)))
    blocks, damaged = {}, []
    for path, block in zip(paths, read, strict=True):
        if isinstance(block, TensorFileError):
            note(f"{block}; it is computed anew")
            path.unlink(missing_ok=True)
            damaged.append(path.stem)
        elif isinstance(block, OSError):
            note(f"{path} cannot be opened ({block.strerror or block}), and is left out")
        else:
            blocks[path.stem] = block
    return blocks, damaged


def _read(path: Path) -> Block | TensorFileError | OSError:
    try:
        return read_tensors(path, KIND)[0]
    except (TensorFileError, OSError) as error:
        return error
