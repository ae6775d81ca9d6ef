"""All shards as plain NumPy arrays, and a table of the images in the same order."""

import csv
from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from spectral_vmamba.retrieval.shard_files import DamagedShard
from spectral_vmamba.retrieval.store import ARRAYS, OutputFolder
from spectral_vmamba.utils.atomic_files import written_whole

_COLUMNS = ("file", "width", "height", "label")


def gather(folder: OutputFolder, images: int) -> dict[str, str]:
    """Checksums of the files written."""
    path, facts = folder.path, folder.facts
    _write_array(folder, "vectors", (images, facts["vector_length"]), np.float32)
    if facts["settings"]["tokens"]:
        _write_array(folder, "tokens", (images, *facts["token_shape"]), np.float16)
        cells = next(folder.shards()).cells
        assert cells is not None
        with written_whole(path / "cells.npy") as temporary, temporary.open("wb") as stream:
            np.save(stream, cells)
    with (
        written_whole(path / "images.csv") as temporary,
        temporary.open("w", newline="", encoding="utf-8") as stream,
    ):
        writer = csv.writer(stream)
        writer.writerow(_COLUMNS)
        for shard in folder.shards():
            writer.writerows(zip(shard.files, shard.widths, shard.heights, shard.labels, strict=True))
    return {name: _digest(path / name) for name in ARRAYS if (path / name).exists()}


def whole_arrays(folder: OutputFolder) -> bool:
    stored = folder.facts["sha256"]
    return all((folder.path / name).is_file() and _digest(folder.path / name) == stored[name] for name in stored)


def read_arrays(folder: Path, rows: int) -> Iterator[tuple[list[str], list[str | None], np.ndarray]]:
    """Files, labels and vectors, so many rows at a time."""
    try:
        vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise DamagedShard(f"{folder / 'vectors.npy'} is damaged: {error}; run embed again") from error
    with (folder / "images.csv").open(newline="", encoding="utf-8") as stream:
        lines = csv.DictReader(stream)
        for start in range(0, len(vectors), rows):
            block = np.asarray(vectors[start : start + rows])
            told = [line for _, line in zip(range(len(block)), lines, strict=False)]
            if len(told) < len(block):
                raise DamagedShard(f"{folder / 'images.csv'} ends before vectors.npy does; run embed again")
            yield [line["file"] for line in told], [line["label"] or None for line in told], block


def _write_array(folder: OutputFolder, name: str, shape: tuple[int, ...], kind: type) -> None:
    with written_whole(folder.path / f"{name}.npy") as temporary:
        if not shape[0]:
            with temporary.open("wb") as stream:
                np.save(stream, np.zeros(shape, kind))
            return
        array, row = open_memmap(temporary, "w+", kind, shape), 0
        for shard in folder.shards():
            array[row : row + len(shard)] = getattr(shard, name)
            row += len(shard)
        array.flush()
        del array


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
