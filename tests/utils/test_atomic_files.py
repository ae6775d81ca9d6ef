"""Files are complete or absent."""

import os
import time

import pytest

from spectral_vmamba.utils.atomic_files import (
    atomic_write,
    discard_new_folder,
    prepare_folder,
    remove_temporary_files,
    write_text,
)
from tests.support.disks import fill_disk, small_disk


def test_the_file_appears_when_the_block_ends(tmp_path):
    path = tmp_path / "a.txt"
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def fail_while_writing(path, error):
    with atomic_write(path) as temporary:
        temporary.write_text("half")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_previous_file(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("previous")
    with pytest.raises(error):
        fail_while_writing(path, error)
    assert path.read_text() == "previous"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_full_disk_leaves_the_previous_file(tmp_path):
    with small_disk(tmp_path) as disk:
        write_text(disk / "a.txt", "previous")
        fill_disk(disk, leave=4096)
        with pytest.raises(OSError, match=r"no space left on the disk; the previous a\.txt is unchanged"):
            write_text(disk / "a.txt", "x" * 100_000)
        assert (disk / "a.txt").read_text() == "previous"
        with pytest.raises(OSError, match=r"cannot write .*b\.txt: no space left on the disk$"):
            write_text(disk / "b.txt", "x" * 100_000)
        assert sorted(os.listdir(disk)) == ["a.txt", "filler"]


def test_prepare_folder_creates_it_and_removes_leftovers(tmp_path):
    folder = tmp_path / "a" / "b"
    prepare_folder(folder, "output folder")
    (folder / ".x.1.tmp").write_text("half")
    (folder / "x").write_text("whole")
    prepare_folder(folder, "output folder")
    assert os.listdir(folder) == ["x"]
    with pytest.raises(OSError, match="cannot write to the output folder"):
        prepare_folder(folder / "x" / "c", "output folder")


def test_only_old_temporary_files_are_removed(tmp_path):
    for name, age in (("new", 0), ("old", 100)):
        (tmp_path / f".{name}.tmp").write_text("half")
        os.utime(tmp_path / f".{name}.tmp", (time.time() - age,) * 2)
    remove_temporary_files(tmp_path, older_than=50)
    assert os.listdir(tmp_path) == [".new.tmp"]
    remove_temporary_files(tmp_path)
    assert os.listdir(tmp_path) == []


def refuse(folder) -> None:
    with discard_new_folder(folder):
        prepare_folder(folder, "output folder")
        (folder / "log.txt").touch()
        raise ValueError("refused")


def test_a_refused_command_leaves_no_folder(tmp_path):
    with pytest.raises(ValueError, match="refused"):
        refuse(tmp_path / "runs" / "first")
    assert os.listdir(tmp_path) == []


def test_folders_that_were_there_before_stay(tmp_path):
    (tmp_path / "runs" / "first").mkdir(parents=True)
    for name in ("first", "second"):
        with pytest.raises(ValueError, match="refused"):
            refuse(tmp_path / "runs" / name)
    assert os.listdir(tmp_path / "runs") == ["first"]
    assert os.listdir(tmp_path / "runs" / "first") == ["log.txt"]
