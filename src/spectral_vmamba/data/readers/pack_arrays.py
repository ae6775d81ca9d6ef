"""Arrays of a `.npz` file that are read where they are, not loaded whole.

A member that is stored uncompressed (`np.savez`) is mapped at its place in the file. A compressed member
(`np.savez_compressed`) has no random access: it is unpacked once to a temporary file, which is mapped. Processes share
the pages of mapped files, so worker processes hold no copies.
"""

import os
import shutil
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np

# No deflated data expands by more than this.
_LARGEST_DEFLATE_RATIO = 1032
_COPY_BYTES = 2**20
# What zipfile raises for damaged files, besides ValueError.
_DAMAGE = (ValueError, OSError, EOFError, OverflowError, NotImplementedError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class MappedArray:
    """An array in a file, mapped on first use in each process; pickled without its data."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype
    is_fortran: bool = False
    temporary: "_TemporaryFile | None" = field(default=None, compare=False, repr=False)

    def __reduce__(self):
        return MappedArray, (self.path, self.offset, self.shape, self.dtype, self.is_fortran)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index) -> np.ndarray:
        return np.asarray(self._array[index])

    @cached_property
    def _array(self) -> np.ndarray:
        if not prod(self.shape):
            return np.empty(self.shape, self.dtype)
        order = "F" if self.is_fortran else "C"
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)

    def rows(self) -> Iterator[np.ndarray]:
        """Each row of the first axis, through one buffer: reading a map would make the whole array resident."""
        if self.is_fortran:
            yield from (np.ascontiguousarray(row) for row in self._array)
            return
        row = np.empty(self.shape[1:], self.dtype)
        with self.path.open("rb") as stream:
            stream.seek(self.offset)
            for _ in range(len(self)):
                if stream.readinto(row.reshape(-1).view(np.uint8)) != row.nbytes:
                    raise ValueError(f"{self.path} ends inside an array; it was truncated")
                yield row


class Pack:
    """An open `.npz` file. Raises ValueError for damaged files, other compressions, and pickles."""

    def __init__(self, path: Path, archive: zipfile.ZipFile):
        self.path = path
        self._archive = archive
        self._members = {name.removesuffix(".npy"): name for name in archive.namelist()}

    @property
    def names(self) -> set[str]:
        return set(self._members)

    def read(self, name: str) -> np.ndarray:
        """Load an array."""
        with self._open(name) as (stream, _, header):
            values = stream.read(prod(header.shape) * header.dtype.itemsize)
            _check_size(name, len(values), header)
            return np.frombuffer(values, header.dtype).reshape(header.shape, order="F" if header.is_fortran else "C")

    def map(self, name: str) -> MappedArray:
        """Map an array, unpacked to a temporary file if it is compressed."""
        with self._open(name) as (stream, info, header):
            if info.compress_type != zipfile.ZIP_STORED:
                return unpack(_chunks(stream), header.shape, header.dtype, f"{name} of {self.path}", header.is_fortran)
            offset = self._data_start(info) + header.length
        return MappedArray(self.path, offset, header.shape, header.dtype, header.is_fortran)

    @contextmanager
    def _open(self, name: str):
        info = self._archive.getinfo(self._members[name])
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise ValueError(f"{name} is encrypted or compressed by another method than deflate; write it by np.savez")
        if info.file_size > _LARGEST_DEFLATE_RATIO * (info.compress_size + 64):
            raise ValueError(f"{name} claims {info.file_size} bytes in {info.compress_size} compressed ones")
        with self._archive.open(info) as stream:
            header = _read_header(name, stream)
            _check_size(name, info.file_size - header.length, header)
            yield stream, info, header

    def _data_start(self, info: zipfile.ZipInfo) -> int:
        """Where the bytes of a stored member are in the file: after its local header, whose length is known there."""
        with self.path.open("rb") as stream:
            stream.seek(info.header_offset)
            local = stream.read(30)
        start = (
            info.header_offset + 30 + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        )
        if start + info.file_size > self.path.stat().st_size:
            raise ValueError(f"{info.filename} ends after the end of the file")
        return start


@contextmanager
def open_pack(path: Path) -> Iterator[Pack]:
    """Raises ValueError, with the name of the pack, for everything that is wrong with it."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield Pack(path, archive)
    except _DAMAGE as error:
        raise ValueError(f"{path} cannot be read as a NumPy pack without pickles: {error}") from error


def unpack(
    chunks: Iterable[bytes | np.ndarray], shape: tuple[int, ...], dtype: np.dtype, name: str, is_fortran: bool = False
) -> MappedArray:
    """Write an array, chunk by chunk, to a temporary file that lives as long as the returned array, and map it."""
    size, folder = prod(shape) * dtype.itemsize, tempfile.gettempdir()
    if size > shutil.disk_usage(folder).free:
        raise OSError(
            f"unpacking {name} takes {size / 1e6:,.0f} MB, more than is free in {folder}; set TMPDIR to another folder"
        )
    temporary = _TemporaryFile()
    written = 0
    with temporary.path.open("wb") as stream:
        for chunk in chunks:
            written += stream.write(chunk)
    if written != size:
        raise ValueError(f"{name} has {written} bytes, expected {size} for an array of shape {shape}")
    return MappedArray(temporary.path, 0, shape, dtype, is_fortran, temporary)


class _TemporaryFile:
    """A file that is removed with this object, at the latest when the process ends; not by its forked children."""

    def __init__(self):
        descriptor, name = tempfile.mkstemp(prefix="spectral-vmamba-pack-")
        os.close(descriptor)
        self.path = Path(name)
        self._finalizer = weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype
    length: int


def _read_header(name: str, stream: BinaryIO) -> _Header:
    """The header of a `.npy` file. Structured arrays, the only ones of format 3, are not expected."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        shape, is_fortran, dtype = readers[np.lib.format.read_magic(stream)](stream)
    except Exception as error:  # NumPy parses a Python literal: errors of the parser, recursion and memory included
        raise ValueError(f"{name} has no .npy header of version 1.0 or 2.0: {error}") from error
    if dtype.hasobject:
        raise ValueError(f"{name} contains Python objects")
    if any(side < 0 for side in shape):
        raise ValueError(f"{name} has the impossible shape {shape}")
    return _Header(shape, is_fortran and len(shape) > 1, dtype, stream.tell())


def _check_size(name: str, size: int, header: _Header) -> None:
    expected = prod(header.shape) * header.dtype.itemsize
    if size != expected:
        raise ValueError(f"{name} has {size} bytes, expected {expected} for {header.dtype} of shape {header.shape}")


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_COPY_BYTES):
        yield chunk
