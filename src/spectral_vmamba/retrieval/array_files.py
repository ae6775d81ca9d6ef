"""All shards joined into plain NumPy arrays, with a table of the images in the same order."""

import csv
from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from spectral_vmamba.retrieval.shard_files import DamagedShard
from spectral_vmamba.retrieval.store import ARRAY_FILES, EmbeddingStore
from spectral_vmamba.utils.atomic_files import atomic_write

_COLUMNS = ("file", "width", "height", "label")


def join_shards(store: EmbeddingStore, images: int) -> dict[str, str]:
    """Write the array files; return their checksums."""
    path, metadata = store.path, store.metadata
    _write_array(store, "vectors", (images, metadata.vector_length), np.float32)
    if metadata.token_shape is not None:
        _write_array(store, "tokens", (images, *metadata.token_shape), np.float16)
        with atomic_write(path / "cells.npy") as temporary, temporary.open("wb") as stream:
            np.save(stream, np.array(metadata.cells, np.int16))
    with (
        atomic_write(path / "images.csv") as temporary,
        temporary.open("w", newline="", encoding="utf-8") as stream,
    ):
        writer = csv.writer(stream)
        writer.writerow(_COLUMNS)
        for shard in store.shards():
            writer.writerows(zip(shard.files, shard.widths, shard.heights, shard.labels, strict=True))
    return {name: _digest_file(path / name) for name in ARRAY_FILES if (path / name).exists()}


def arrays_are_intact(store: EmbeddingStore) -> bool:
    """Whether all array files are there with the checksums that the metadata records."""
    checksums = store.metadata.sha256
    return all(
        (store.path / name).is_file() and _digest_file(store.path / name) == checksum
        for name, checksum in checksums.items()
    )


def read_arrays(folder: Path, rows: int) -> Iterator[tuple[list[str], list[str | None], np.ndarray]]:
    """Files, labels and vectors, `rows` at a time."""
    try:
        vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise DamagedShard(f"{folder / 'vectors.npy'} is damaged: {error}; run embed again") from error
    with (folder / "images.csv").open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        for start in range(0, len(vectors), rows):
            block = np.asarray(vectors[start : start + rows])
            lines = [line for _, line in zip(range(len(block)), reader, strict=False)]
            if len(lines) < len(block):
                raise DamagedShard(f"{folder / 'images.csv'} ends before vectors.npy does; run embed again")
            yield [line["file"] for line in lines], [line["label"] or None for line in lines], block


def _write_array(store: EmbeddingStore, name: str, shape: tuple[int, ...], dtype: type) -> None:
    with atomic_write(store.path / f"{name}.npy") as temporary:
        if not shape[0]:
            with temporary.open("wb") as stream:
                np.save(stream, np.zeros(shape, dtype))
            return
        array, row = open_memmap(temporary, "w+", dtype, shape), 0
        for shard in store.shards():
            array[row : row + len(shard)] = getattr(shard, name)
            row += len(shard)
        array.flush()
        del array


def _digest_file(path: Path) -> str:
    with path.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
