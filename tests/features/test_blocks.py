"""Block files: damaged ones are deleted, unfinished ones of other processes are not."""

import os
import time

import torch

from spectral_vmamba.features.blocks import new_block_name, read_blocks, write_block
from spectral_vmamba.utils.progress import no_progress

BLOCK = {"keys": torch.arange(6, dtype=torch.uint8).reshape(3, 2), "features": torch.rand(3, 4, 5)}


def read(folder, known=(), notes=None):
    return read_blocks(folder, known, (notes if notes is not None else []).append, no_progress, "reading")


def test_round_trip(tmp_path):
    assert read(tmp_path / "new") == ({}, [])
    one, two = new_block_name(), new_block_name()
    stored = write_block(tmp_path, one, BLOCK)
    assert all(stored[name].equal(tensor) for name, tensor in BLOCK.items())
    write_block(tmp_path, two, {"keys": BLOCK["keys"]})
    blocks, damaged = read(tmp_path)
    assert (blocks.keys(), damaged) == ({one, two}, [])
    assert blocks[one]["features"].equal(BLOCK["features"])
    assert read(tmp_path, known={one})[0].keys() == {two}


def test_damaged_blocks_are_deleted_with_a_note(tmp_path):
    write_block(tmp_path, "good", BLOCK)
    (tmp_path / "bad.safetensors").write_bytes(b"no block")
    notes = []
    blocks, damaged = read(tmp_path, notes=notes)
    assert (blocks.keys(), damaged) == ({"good"}, ["bad"])
    assert not (tmp_path / "bad.safetensors").exists()
    assert len(notes) == 1
    assert "bad.safetensors is damaged" in notes[0]
    assert notes[0].endswith("it will be computed again")


def test_files_that_cannot_be_opened_are_ignored_with_a_note(tmp_path):
    in_the_way = tmp_path / "0a.safetensors"
    in_the_way.mkdir()
    notes = []
    assert read(tmp_path, notes=notes) == ({}, [])
    assert notes == [f"{in_the_way} cannot be opened and is ignored: Is a directory"]
    assert in_the_way.exists()


def test_files_that_others_are_writing_are_left_alone(tmp_path):
    for name, age in (("now", 0), ("long_ago", 7200)):
        (tmp_path / f".{name}.tmp").write_bytes(b"half")
        os.utime(tmp_path / f".{name}.tmp", (time.time() - age,) * 2)
    read(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".now.tmp"]
