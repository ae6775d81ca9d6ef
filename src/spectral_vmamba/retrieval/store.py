"""The folder of one embedded collection: its shards, what they were made from, and whether a run may go on in it."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from spectral_vmamba.retrieval.embed_config import Format
from spectral_vmamba.retrieval.shard_files import FORMATS, DamagedShard, Shard
from spectral_vmamba.utils.atomic_files import remove_leftovers, write_text

KIND = "spectral-vmamba embeddings"
ARRAYS = ("vectors.npy", "tokens.npy", "cells.npy", "images.csv")


class OutputFolder:
    """`facts["settings"]` decide what the vectors are; every shard carries their checksum."""

    def __init__(self, path: str | Path, facts: dict[str, Any]):
        self.path, self.facts = Path(path), facts
        format: Format = facts["settings"]["format"]
        self.format, self.in_arrays = FORMATS[format], format == "npy"
        self.made_by = sha256(json.dumps(facts["settings"], sort_keys=True).encode()).hexdigest()

    @property
    def shard_count(self) -> int:
        return -(-self.facts["settings"]["count"] // self.facts["settings"]["shard_size"])

    def shard_path(self, number: int) -> Path:
        return self.path / f"part-{number:05d}.{self.format.suffix}"

    def rows_of(self, number: int) -> range:
        """The images of a shard, by their numbers in the collection."""
        size, count = self.facts["settings"]["shard_size"], self.facts["settings"]["count"]
        return range(number * size, min((number + 1) * size, count))

    def begin(self, overwrite: bool) -> None:
        """Make the folder ours, or find that it already is."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.path)
        except OSError as error:
            raise OSError(f"cannot write to the output folder {self.path}: {error.strerror or error}") from error
        if overwrite:
            for path in (*_ours(self.path), self.path / "facts.json"):  # the facts last: until then it is the old one
                path.unlink(missing_ok=True)
        if (self.path / "facts.json").exists():
            stored = read_facts(self.path)
            _check_same(stored["settings"], self.facts["settings"], self.path)
            if stored["finished"]:
                self.facts = {
                    **self.facts,
                    **{key: stored[key] for key in ("finished", "embedded", "sha256") if key in stored},
                }
                return
        elif found := next(iter(_ours(self.path)), None):
            raise ValueError(
                f"{self.path} holds {found.name} but no facts.json that says what it is; choose another output folder, "
                f"or begin anew with --overwrite (overwrite=True)"
            )
        self.write_facts()

    def write_facts(self, **more: Any) -> None:
        self.facts = {**self.facts, **more}
        write_text(self.path / "facts.json", json.dumps(self.facts, indent=1, ensure_ascii=False) + "\n")

    def finished_shard(self, number: int) -> Shard | None:
        """None if it has to be computed: not there, damaged, or of other settings."""
        try:
            shard = self.format.read(self.shard_path(number), True)
        except DamagedShard:
            return None
        whole = len(shard) + len(shard.broken) == len(self.rows_of(number))
        return shard if whole and shard.made_by == self.made_by else None

    def write_shard(self, number: int, shard: Shard) -> None:
        self.format.write(self.shard_path(number), shard)

    def shards(self, with_tokens: bool = True) -> Iterator[Shard]:
        for number in range(self.shard_count):
            try:
                yield self.format.read(self.shard_path(number), with_tokens)
            except DamagedShard as error:
                raise DamagedShard(f"{error}; run embed again with the same settings: it computes only this") from error

    def remove_shards(self) -> None:
        for number in range(self.shard_count):
            self.shard_path(number).unlink(missing_ok=True)


def write_broken(folder: Path, broken: list[tuple[str, str]]) -> None:
    """One a line, name and reason; no file where there are none."""
    if broken:
        write_text(folder / "broken.txt", "".join(f"{name}\t{reason}\n" for name, reason in broken))
    else:
        (folder / "broken.txt").unlink(missing_ok=True)


def read_broken(folder: Path) -> list[tuple[str, str]]:
    path = folder / "broken.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(name, reason) for name, _, reason in (line.partition("\t") for line in lines)]


def read_facts(folder: Path) -> dict[str, Any]:
    path = folder / "facts.json"
    if not path.is_file():
        raise FileNotFoundError(f"no embeddings in {folder}: expected a folder that `spectral-vmamba embed` wrote")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts["kind"] != KIND:
            raise ValueError(f"it is of the kind {facts['kind']!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} does not describe embeddings: {error}") from error
    return facts


def _ours(folder: Path) -> list[Path]:
    parts = [path for format in FORMATS.values() for path in folder.glob(f"part-*.{format.suffix}")]
    arrays = [folder / name for name in (*ARRAYS, "broken.txt")]
    return [*sorted(parts), *(path for path in arrays if path.exists())]


def _check_same(had: dict[str, Any], given: dict[str, Any], where: Path) -> None:
    changed = [key for key in given if had.get(key) != given[key]]
    if not changed:
        return
    told = [f"{key} {had.get(key)} (now {given[key]})" for key in changed if key not in _UNREADABLE]
    told += [text for key, text in _UNREADABLE.items() if key in changed]
    raise ValueError(
        f"{where} holds embeddings made with {'; '.join(told)}. Use the same, choose another output folder, or begin "
        f"anew with --overwrite (overwrite=True)"
    )


_UNREADABLE = {
    "images": "other images (other names, labels, sizes or times of change)",
    "weights": "other weights",
}
