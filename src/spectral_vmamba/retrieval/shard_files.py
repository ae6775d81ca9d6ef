"""One file of embedded images: a Parquet table, or NumPy arrays until all shards are there."""

import json
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.utils.atomic_files import atomic_write
from spectral_vmamba.utils.extras import require

_METADATA_KEY = b"spectral_vmamba"
_IMAGE_COLUMNS = ("file", "width", "height", "label")


class DamagedShard(ValueError):
    """The file cannot be read to its end, or contains something else."""


@dataclass(frozen=True, eq=False)
class Shard:
    """Rows of the readable images, and the unreadable ones; `settings_digest` identifies the settings."""

    files: list[str]
    widths: list[int]
    heights: list[int]
    labels: list[str | None]
    vectors: Float[np.ndarray, "n v"]
    tokens: Float[np.ndarray, "n l c"] | None
    cells: Int[np.ndarray, "l 2"] | None
    unreadable: list[ReadError]
    settings_digest: str

    def __len__(self) -> int:
        return len(self.files)

    def _notes(self) -> dict[str, Any]:
        return {"settings": self.settings_digest, "unreadable": [astuple(error) for error in self.unreadable]}


@dataclass(frozen=True)
class ShardFormat:
    """`read` takes a path and whether to read tokens."""

    suffix: str
    write: Callable[[Path, Shard], None]
    read: Callable[[Path, bool], Shard]


def require_pyarrow() -> Any:
    """Import pyarrow with its Parquet module."""
    try:
        require("pyarrow.parquet", "embed")
    except ImportError as error:
        raise ImportError(f"{error}; or choose --format npy", name=error.name) from error
    return require("pyarrow", "embed")


def _write_parquet(path: Path, shard: Shard) -> None:
    arrow = require_pyarrow()
    columns = {
        "file": arrow.array(shard.files, arrow.string()),
        "width": arrow.array(shard.widths, arrow.int32()),
        "height": arrow.array(shard.heights, arrow.int32()),
        "label": arrow.array(shard.labels, arrow.string()),
        "vector": _to_lists(arrow, shard.vectors),
    }
    if shard.tokens is not None and shard.cells is not None:
        columns["tokens"] = _to_lists(arrow, shard.tokens)
        columns["cells"] = _to_lists(arrow, np.broadcast_to(shard.cells, (len(shard), *shard.cells.shape)))
    notes = json.dumps(shard._notes(), ensure_ascii=False)
    table = arrow.table(columns).replace_schema_metadata({_METADATA_KEY: notes.encode()})
    with atomic_write(path) as temporary:
        arrow.parquet.write_table(table, temporary, write_page_checksum=True)


def _read_parquet(path: Path, with_tokens: bool) -> Shard:
    arrow = require_pyarrow()
    try:
        columns = None if with_tokens else [*_IMAGE_COLUMNS, "vector"]
        with path.open("rb") as stream:
            table = arrow.parquet.read_table(stream, columns=columns, page_checksum_verification=True)
        notes = json.loads((table.schema.metadata or {})[_METADATA_KEY])
        files, widths, heights, labels = (table[name].to_pylist() for name in _IMAGE_COLUMNS)
        vectors = _to_array(table, "vector")
        tokens = _to_array(table, "tokens") if "tokens" in table.column_names else None
        cells = _to_array(table, "cells") if tokens is not None else None
        cells = None if cells is None or not len(cells) else cells[0]
        unreadable = [ReadError(*error) for error in notes["unreadable"]]
        return Shard(files, widths, heights, labels, vectors, tokens, cells, unreadable, notes["settings"])
    except (arrow.ArrowException, OSError, KeyError, ValueError) as error:
        raise DamagedShard(f"{path} is damaged: {error}") from error


def _to_lists(arrow: Any, values: np.ndarray) -> Any:
    """(n, a, …) as n nested fixed-size lists."""
    flat = arrow.array(np.ascontiguousarray(values).reshape(-1))
    for size in reversed(values.shape[1:]):
        flat = arrow.FixedSizeListArray.from_arrays(flat, size)
    return flat


def _to_array(table: Any, name: str) -> np.ndarray:
    column, sizes, kind = table[name].combine_chunks(), [], table.schema.field(name).type
    while hasattr(kind, "list_size"):
        sizes.append(kind.list_size)
        column, kind = column.flatten(), kind.value_type
    return column.to_numpy(zero_copy_only=False).reshape(len(table), *sizes)


def _write_arrays(path: Path, shard: Shard) -> None:
    lists = {"files": shard.files, "widths": shard.widths, "heights": shard.heights, "labels": shard.labels}
    notes = json.dumps({**lists, **shard._notes()})
    arrays = {"vectors": shard.vectors, "notes": np.frombuffer(notes.encode(), np.uint8)}
    if shard.tokens is not None and shard.cells is not None:
        arrays |= {"tokens": shard.tokens, "cells": shard.cells}
    with atomic_write(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **arrays)


def _read_arrays(path: Path, with_tokens: bool) -> Shard:
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files if with_tokens or name not in ("tokens", "cells")}
        notes = json.loads(arrays["notes"].tobytes())
        lists = (notes["files"], notes["widths"], notes["heights"], notes["labels"])
        unreadable = [ReadError(*error) for error in notes["unreadable"]]
        tokens, cells = arrays.get("tokens"), arrays.get("cells")
        return Shard(*lists, arrays["vectors"], tokens, cells, unreadable, notes["settings"])
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, ValueError) as error:
        raise DamagedShard(f"{path} is damaged: {error}") from error


FORMATS: dict[str, ShardFormat] = {
    "parquet": ShardFormat("parquet", _write_parquet, _read_parquet),
    "npy": ShardFormat("npz", _write_arrays, _read_arrays),
}
