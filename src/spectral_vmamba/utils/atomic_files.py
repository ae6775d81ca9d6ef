"""Files that are there whole or not at all: written beside their place, flushed to the disk, then renamed."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary path to write to, which becomes `path` if no error comes."""
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
        _flush(path.parent)
    except OSError as error:
        kept = f"; {path.name} of before is kept" if path.exists() else ""
        raise OSError(f"cannot write {path}: {_reason(error)}{kept}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")


def remove_leftovers(folder: Path, older_than: float = 0.0) -> None:
    """Temporary files of writers that were killed. Where others may be writing now, only those of so many seconds."""
    for temporary in folder.glob(".*.tmp"):
        with suppress(FileNotFoundError):
            if time.time() - temporary.stat().st_mtime >= older_than:
                temporary.unlink()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error: OSError) -> str:
    text = str(error)
    full = "No space left" in text or "os error 28" in text
    return "no space left on the disk" if full else error.strerror or text
