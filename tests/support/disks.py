"""Small file systems of their own, where they may be made."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, options: str = "size=1m") -> Iterator[Path]:
    disk = folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("making a small file system needs the rights of root")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def fill(disk: Path, but: int) -> None:
    """Leave so many bytes free."""
    usage = os.statvfs(disk)
    (disk / "filler").write_bytes(os.urandom(usage.f_bavail * usage.f_frsize - but))
