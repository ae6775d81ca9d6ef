"""Arrays of packs: mapped or unpacked, never read whole, picklable; damaged files raise ValueError."""

import gc
import pickle
import tempfile
import zipfile
from concurrent.futures import ProcessPoolExecutor
from io import BytesIO
from multiprocessing import get_context

import numpy as np
import pytest

from spectral_vmamba.data.readers.npz import read_npz
from spectral_vmamba.data.readers.pack_arrays import open_pack
from spectral_vmamba.utils.peak_memory import measure_growth
from tests.support.image_folders import gray_image, png_bytes

SAVE = {"stored": np.savez, "compressed": np.savez_compressed}
ARRAYS = {
    "bytes": np.arange(256, dtype=np.uint8),
    "images": np.random.default_rng(0).integers(0, 256, (5, 3, 4, 3), dtype=np.uint8),
    "floats": np.random.default_rng(0).standard_normal((4, 2, 3)),
    "fortran": np.asfortranarray(np.arange(60).reshape(3, 4, 5)),
    "names": np.array(["a", "long name", "ü"]),
    "none": np.zeros((0, 4), np.int32),
    "number": np.array(3),
}


@pytest.mark.parametrize("save", SAVE)
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_equal_those_of_numpy(tmp_path, save, name):
    SAVE[save](tmp_path / "pack.npz", **ARRAYS)
    expected = ARRAYS[name]
    with open_pack(tmp_path / "pack.npz") as pack:
        assert pack.names == set(ARRAYS)
        read, mapped = pack.read(name), pack.map(name)
    assert read.dtype == mapped.dtype == expected.dtype
    assert np.array_equal(read, expected)
    assert mapped.shape == expected.shape
    assert np.array_equal(mapped[...], expected)
    if expected.ndim:
        assert len(mapped) == len(expected)
        assert all(np.array_equal(a, b) for a, b in zip(mapped.rows(), expected, strict=True))
        assert (mapped.path == tmp_path / "pack.npz") == (save == "stored")


def sum_of(array):
    return int(array[...].sum())


@pytest.mark.parametrize("save", SAVE)
def test_worker_processes_map_the_file_themselves(tmp_path, save):
    pixels = np.random.default_rng(0).integers(0, 256, (1000, 32, 32), dtype=np.uint8)
    SAVE[save](tmp_path / "pack.npz", x=pixels)
    with open_pack(tmp_path / "pack.npz") as pack:
        mapped = pack.map("x")
    assert sum_of(mapped) == pixels.sum()
    assert len(pickle.dumps(mapped)) < 1000
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        assert pool.submit(sum_of, mapped).result() == pixels.sum()
    assert sum_of(pickle.loads(pickle.dumps(mapped))) == pixels.sum()  # the worker did not remove a temporary file


def test_temporary_files_are_removed_with_their_array(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    np.savez_compressed(tmp_path / "pack.npz", x=np.ones((10, 4, 4), np.uint8))
    with open_pack(tmp_path / "pack.npz") as pack:
        mapped = pack.map("x")
    assert [mapped.path] == list(tmp_path.glob("spectral-vmamba-pack-*"))
    del mapped
    gc.collect()
    assert list(tmp_path.glob("spectral-vmamba-pack-*")) == []


def test_unpacking_more_than_fits_on_the_disk(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "pack.npz", x=np.ones((10, 4, 4), np.uint8))
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 100}))
    with open_pack(tmp_path / "pack.npz") as pack, pytest.raises(OSError, match="set TMPDIR"):
        pack.map("x")


def write_large_pack(path, save, layout, megabytes):
    """Packs of `megabytes` million bytes; 1,000 images."""
    labels = np.arange(1000) % 10
    if layout == "files":
        image = np.frombuffer(png_bytes(7).ljust(megabytes * 1000, b"\0"), np.uint8)
        arrays = {"data": np.tile(image, 1000), "offset": np.arange(1001) * len(image), "label": labels}
    else:
        pixels = np.zeros((1000, megabytes, 1000), np.uint8)
        arrays = {"x_train": pixels, "y_train": labels, "x_test": pixels[:1], "y_test": labels[:1]}
    SAVE[save](path, **arrays)


@pytest.mark.parametrize(
    ("save", "layout", "megabytes"),
    [
        ("stored", "files", 200),
        pytest.param("stored", "pixels", 200, marks=pytest.mark.full),
        ("compressed", "pixels", 80),
    ],
)
def test_opening_a_pack_takes_little_memory(tmp_path, save, layout, megabytes):
    write_large_pack(tmp_path / "pack.npz", save, layout, megabytes)
    found = []
    growth = measure_growth(lambda: found.append(next(iter(read_npz(tmp_path / "pack.npz").values()))))
    assert growth < 20e6
    assert len(found[0]) == 1000
    assert np.asarray(found[0].open(999)).mean() == (7 if layout == "files" else 0)


def rewrite(path, change):
    """Change the bytes of each member, stored without compression, with matching sizes and checksums."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, change(content))


HOSTILE = {
    "huge shape": lambda content: content.replace(b"(40, 2, 2)", b"(9" + b"0" * 8 + b")"),
    "negative shape": lambda content: content.replace(b"(40, 2, 2)", b"(-4, 2, 2)"),
    "objects": lambda content: content.replace(b"'|u1'", b"'|O' "),
    "code in the header": lambda content: content.replace(b"False", b"exit("),
    "short": lambda content: content[:-1],
    "deep nesting": lambda content: content.replace(b"(40, 2, 2)", b"(" * 10),
    "no array": lambda content: b"",
    "other version": lambda content: content.replace(b"NUMPY\1", b"NUMPY\7"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_members_are_rejected(tmp_path, name):
    path = tmp_path / "pack.npz"
    pixels = np.zeros((40, 2, 2), np.uint8)
    np.savez(path, x_train=pixels, y_train=np.zeros(40, np.uint8), x_test=pixels, y_test=np.zeros(40, np.uint8))
    rewrite(path, HOSTILE[name])
    with pytest.raises(ValueError, match=r"pack\.npz cannot be read as a NumPy pack without pickles"):
        read_npz(path)


def test_a_member_that_claims_to_expand_without_limit(tmp_path):
    path = tmp_path / "pack.npz"
    np.savez_compressed(path, x_train=np.zeros((40, 50, 50), np.uint8), y_train=[0], x_test=[0], y_test=[0])
    claimed = (40 * 50 * 50 + 128).to_bytes(4, "little")
    content = path.read_bytes()
    assert claimed in content
    path.write_bytes(content.replace(claimed, (2**31).to_bytes(4, "little")))
    with pytest.raises(ValueError, match="claims 2147483648 bytes"):
        read_npz(path)


@pytest.mark.parametrize("save", SAVE)
def test_damaged_packs_never_raise_anything_but_value_errors(tmp_path, save):
    """Truncated anywhere, or with changed bytes. A changed pixel of a mapped array is the one thing not noticed."""
    pixels = np.random.default_rng(0).integers(0, 256, (20, 3, 3), dtype=np.uint8)
    whole, damaged = tmp_path / "whole.npz", tmp_path / "damaged.npz"
    SAVE[save](whole, x_train=pixels, y_train=np.arange(20) % 2, x_test=pixels[:2], y_test=[0, 1])
    content = whole.read_bytes()
    generator = np.random.default_rng(1)
    messages = []
    for _ in range(300):
        changed = bytearray(content[: generator.integers(len(content))] if generator.random() < 0.3 else content)
        for _ in range(generator.integers(1, 4)):
            if changed:
                changed[generator.integers(len(changed))] = generator.integers(256)
        damaged.write_bytes(changed)
        try:
            read_npz(damaged)
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 100
    assert all("damaged.npz" in message for message in messages)


@pytest.mark.parametrize("offset", [[0, 5, 3, 8], [0, 3, 5, 9], [-1, 3, 5, 8], [0, 3, 8]])
def test_offsets_outside_of_the_data_are_rejected(tmp_path, offset):
    np.savez(tmp_path / "p.npz", data=np.zeros(8, np.uint8), offset=offset, label=[0, 0, 0])
    with pytest.raises(ValueError, match="expected offset to hold 4 ascending positions from 0 to 8"):
        read_npz(tmp_path / "p.npz")


def test_sheets_with_fewer_images_than_labels(tmp_path):
    stream = BytesIO()
    gray_image(9, 100).save(stream, "PNG")
    sheet = np.frombuffer(stream.getvalue(), np.uint8)
    np.savez(tmp_path / "s.npz", sheet0=sheet, label=np.zeros(10_001, np.uint8))
    with pytest.raises(ValueError, match="sheet1 is missing"):
        read_npz(tmp_path / "s.npz")
