"""Files that are complete or absent: written next to their final path, flushed to disk, then renamed."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it replaces `path` if the block raises no error."""
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
        _flush(path.parent)
    except OSError as error:
        unchanged = f"; the previous {path.name} is unchanged" if path.exists() else ""
        raise OSError(f"cannot write {path}: {_reason(error)}{unchanged}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace the contents of a text file atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")


def prepare_folder(folder: Path, purpose: str) -> None:
    """Create a folder, check that it is writable before any work is done, and remove leftovers of killed writers."""
    with _naming_folder(folder, purpose):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"writable")
        remove_temporary_files(folder)


@contextmanager
def only_writer(folder: Path, purpose: str) -> Iterator[None]:
    """Create a folder and keep it for one block at a time, over all processes. Raises OSError if another one has it.

    The lock ends with the process, also with a killed one. Where there are no locks (Windows, some network file
    systems), nothing is checked.
    """
    with _naming_folder(folder, purpose):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = None if fcntl is None else os.open(folder, os.O_RDONLY)
    if fcntl is None or descriptor is None:
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OSError(
                f"another process is writing to the {purpose} {folder}; wait for it, or choose another folder"
            ) from error
        except OSError:  # no locks on this file system
            pass
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _naming_folder(folder: Path, purpose: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(f"cannot write to the {purpose} {folder}: {error.strerror or error}") from error


@contextmanager
def discard_new_folder(folder: Path) -> Iterator[None]:
    """If the block raises an error, remove the folder that it created, and the parents if they are new and empty.

    A folder that existed before is left as it is. For work that can be refused after its output folder was created.
    """
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except Exception:
        if created:
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):  # not empty: another process uses it
                for parent in created[1:]:
                    parent.rmdir()
        raise


def remove_temporary_files(folder: Path, older_than: float = 0.0) -> None:
    """Remove temporary files of writers that were killed; with other writers active, only files older than
    `older_than` seconds."""
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
