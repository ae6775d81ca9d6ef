"""Small file systems, for tests of full disks. Mounting one requires root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, options: str = "size=1m") -> Iterator[Path]:
    """Mount a tmpfs below `folder`; skip the test where that is not allowed."""
    disk = folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system requires root")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)  # memory-mapped files may still be open


def fill_disk(disk: Path, leave: int) -> None:
    """Write a file that leaves only `leave` bytes free."""
    usage = os.statvfs(disk)
    (disk / "filler").write_bytes(os.urandom(usage.f_bavail * usage.f_frsize - leave))
