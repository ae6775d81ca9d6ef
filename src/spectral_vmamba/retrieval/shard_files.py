"""One file of embedded images: a Parquet table, or NumPy arrays until all are there. Each says what made it."""

import json
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from spectral_vmamba.retrieval.embed_config import Format
from spectral_vmamba.utils.atomic_files import written_whole

_KEY = b"spectral_vmamba"
_PLAIN = ("file", "width", "height", "label")


class DamagedShard(ValueError):
    """A file that cannot be read to its end, or holds something else."""


@dataclass(frozen=True, eq=False)
class Shard:
    """Rows of the images that could be read; `broken` are the others, with reasons; `made_by` stands for settings."""

    files: list[str]
    widths: list[int]
    heights: list[int]
    labels: list[str | None]
    vectors: Float[np.ndarray, "n v"]
    tokens: Float[np.ndarray, "n l c"] | None
    cells: Int[np.ndarray, "l 2"] | None
    broken: list[tuple[str, str]]
    made_by: str

    def __len__(self) -> int:
        return len(self.files)


@dataclass(frozen=True)
class ShardFormat:
    suffix: str
    write: Callable[[Path, Shard], None]
    read: Callable[[Path, bool], Shard]  # with tokens or without


def pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "Parquet files need pyarrow: pip install 'spectral-vmamba[embed]'; or choose --format npy"
        ) from error
    return pyarrow


def _write_parquet(path: Path, shard: Shard) -> None:
    arrow = pyarrow()
    columns = {
        "file": arrow.array(shard.files, arrow.string()),
        "width": arrow.array(shard.widths, arrow.int32()),
        "height": arrow.array(shard.heights, arrow.int32()),
        "label": arrow.array(shard.labels, arrow.string()),
        "vector": _lists(arrow, shard.vectors),
    }
    if shard.tokens is not None and shard.cells is not None:
        columns["tokens"] = _lists(arrow, shard.tokens)
        columns["cells"] = _lists(arrow, np.broadcast_to(shard.cells, (len(shard), *shard.cells.shape)))
    notes = json.dumps({"made_by": shard.made_by, "broken": shard.broken}, ensure_ascii=False)
    table = arrow.table(columns).replace_schema_metadata({_KEY: notes.encode()})
    with written_whole(path) as temporary:
        arrow.parquet.write_table(table, temporary, write_page_checksum=True)


def _read_parquet(path: Path, with_tokens: bool) -> Shard:
    arrow = pyarrow()
    try:
        columns = None if with_tokens else [*_PLAIN, "vector"]
        with path.open("rb") as stream:
            table = arrow.parquet.read_table(stream, columns=columns, page_checksum_verification=True)
        notes = json.loads((table.schema.metadata or {})[_KEY])
        plain = {name: table[name].to_pylist() for name in _PLAIN}
        vectors = _array(table, "vector")
        tokens = _array(table, "tokens") if "tokens" in table.column_names else None
        cells = _array(table, "cells") if tokens is not None else None
    except (arrow.ArrowException, OSError, KeyError, ValueError) as error:
        raise DamagedShard(f"{path} is damaged: {error}") from error
    return Shard(
        plain["file"],
        plain["width"],
        plain["height"],
        plain["label"],
        vectors,
        tokens,
        None if cells is None or not len(cells) else cells[0],
        [(name, reason) for name, reason in notes["broken"]],
        notes["made_by"],
    )


def _lists(arrow: Any, values: np.ndarray) -> Any:
    """(n, a, …) as n fixed-size lists of a …"""
    flat = arrow.array(np.ascontiguousarray(values).reshape(-1))
    for size in reversed(values.shape[1:]):
        flat = arrow.FixedSizeListArray.from_arrays(flat, size)
    return flat


def _array(table: Any, name: str) -> np.ndarray:
    column, sizes, kind = table[name].combine_chunks(), [], table.schema.field(name).type
    while hasattr(kind, "list_size"):
        sizes.append(kind.list_size)
        column, kind = column.flatten(), kind.value_type
    return column.to_numpy(zero_copy_only=False).reshape(len(table), *sizes)


def _write_arrays(path: Path, shard: Shard) -> None:
    lists = {"files": shard.files, "widths": shard.widths, "heights": shard.heights, "labels": shard.labels}
    notes = json.dumps({**lists, "made_by": shard.made_by, "broken": shard.broken})
    arrays = {"vectors": shard.vectors, "notes": np.frombuffer(notes.encode(), np.uint8)}
    if shard.tokens is not None and shard.cells is not None:
        arrays |= {"tokens": shard.tokens, "cells": shard.cells}
    with written_whole(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **arrays)


def _read_arrays(path: Path, with_tokens: bool) -> Shard:
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files if with_tokens or name not in ("tokens", "cells")}
        notes = json.loads(arrays["notes"].tobytes())
        broken = [(name, reason) for name, reason in notes["broken"]]
        lists = (notes["files"], notes["widths"], notes["heights"], notes["labels"])
        return Shard(*lists, arrays["vectors"], arrays.get("tokens"), arrays.get("cells"), broken, notes["made_by"])
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, ValueError) as error:
        raise DamagedShard(f"{path} is damaged: {error}") from error


FORMATS: dict[Format, ShardFormat] = {
    "parquet": ShardFormat("parquet", _write_parquet, _read_parquet),
    "npy": ShardFormat("npz", _write_arrays, _read_arrays),
}
