"""The native library: side effects of loading, missing and unsuitable libraries, declarations, errors of kernels."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from ctypes import POINTER, ArgumentError, Structure, byref, c_char_p, c_float, c_int, c_int64, c_void_p
from ctypes.util import find_library
from pathlib import Path

import pytest

from spectral_vmamba.ops.native import GraphOptions, NativeError, SignOptions, call, load_native
from spectral_vmamba.ops.native import library as native_library
from tests.support.native import needs_native

HEADERS = Path(__file__).parents[2] / "csrc"
# No std::vector of int64 can be this long: std::length_error.
TOO_LONG = 2**62
# No address space holds this many int64: std::bad_alloc.
TOO_LARGE = 2**59


@pytest.mark.full
@needs_native
def test_loading_does_not_flush_denormals():
    """A library linked with -ffast-math would switch the process to flush-to-zero."""
    code = """
import numpy, torch
from spectral_vmamba.ops.native import load_native
assert load_native().library is not None
assert float(torch.tensor([1e-40]) * 1.0) == float(torch.tensor([1e-40])) != 0
assert numpy.float32(1e-40) * numpy.float32(1) != 0
tiny = float("1e-310")
assert tiny * float("1") == tiny != 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


FALLBACK = """
import logging, torch
logging.basicConfig()
from spectral_vmamba.ops.selective_scan import selective_scan
from tests.support.scan_inputs import scan_inputs
tensors, orders = scan_inputs()
for _ in range(2):
    assert selective_scan(*tensors, orders).isfinite().all()
try:
    selective_scan(*tensors, orders, backend="native")
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("absent", "does not load"),
        pytest.param("text", "does not load", marks=pytest.mark.full),
        pytest.param("foreign", "not this package's library", marks=pytest.mark.full),
    ],
)
def test_without_a_suitable_library_torch_runs_and_logs_once(kind, reason, tmp_path, monkeypatch):
    paths = {"absent": tmp_path / "none.so", "text": tmp_path / "text.so", "foreign": find_library("c")}
    (tmp_path / "text.so").write_text("not a library")
    monkeypatch.setenv("SPECTRAL_VMAMBA_LIBRARY", str(paths[kind]))
    done = subprocess.run([sys.executable, "-c", FALLBACK], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("native CPU kernels are off") == 1
    assert reason in done.stderr
    assert "backend 'native' is not available" in done.stdout


@needs_native
def test_a_library_of_another_version_is_rejected(monkeypatch):
    path, current = native_library._find(), native_library.ABI
    monkeypatch.setattr(native_library, "ABI", 99)
    loaded = native_library._load(path)
    assert loaded.library is None
    assert f"was built for another version (interface {current}, expected 99)" in loaded.reason
    assert "reinstall" in loaded.reason


@needs_native
def test_a_library_with_another_struct_size_is_rejected(monkeypatch):
    class LongerScan(Structure):
        _fields_ = [("scan", native_library.Scan), ("more", c_int64)]

    monkeypatch.setitem(native_library._STRUCTS, "sv_scan", LongerScan)
    loaded = native_library._load(native_library._find())
    assert loaded.library is None
    assert "was built for another version (sv_scan has 168 bytes, expected 176)" in loaded.reason


@needs_native
def test_a_library_without_a_struct_is_rejected(monkeypatch):
    monkeypatch.setitem(native_library._STRUCTS, "sv_unknown", native_library.Scan)
    assert "sv_unknown has -1 bytes, expected 168" in native_library._load(native_library._find()).reason


@needs_native
def test_a_library_without_a_function_is_rejected(monkeypatch):
    monkeypatch.setitem(native_library._FUNCTIONS, "sv_unknown", (None, []))
    loaded = native_library._load(native_library._find())
    assert loaded.library is None
    assert "was built for another version (it has no function sv_unknown)" in loaded.reason


def read_headers() -> str:
    """All headers of csrc/, without comments."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(HEADERS.glob("*.h")))
    return re.sub(r"//.*", "", text)


def ctypes_type(declaration: str):
    """The ctypes type of a C type or of a parameter such as `const sv_scan* scan`."""
    kind = re.match(r"(?:const )?(\w+\**)", declaration)[1]
    if kind.rstrip("*") in native_library._STRUCTS:
        return POINTER(native_library._STRUCTS[kind.rstrip("*")])
    named = {"int": c_int, "int64_t": c_int64, "float": c_float, "char*": c_char_p, "void": None}
    named["sv_graphs**"] = POINTER(c_void_p)
    assert kind in named or kind.endswith("*"), kind
    return named.get(kind, c_void_p)


def test_every_exported_function_is_declared_with_its_types():
    pattern = r"^SV_EXPORT ([\w ]+?\*?) (sv_\w+)\(([^)]*)\)"
    declarations = {
        name: (ctypes_type(result), [ctypes_type(" ".join(part.split())) for part in parameters.split(",") if part])
        for result, name, parameters in re.findall(pattern, read_headers(), flags=re.MULTILINE)
    }
    assert declarations == native_library._FUNCTIONS


def test_every_struct_is_declared_with_its_fields():
    structs = dict(re.findall(r"^struct (sv_\w+) {(.*?)^};", read_headers(), flags=re.MULTILINE | re.DOTALL))
    assert set(structs) == set(native_library._STRUCTS)
    for name, body in structs.items():
        fields = [
            field.split("*")[-1].split()[-1]
            for statement in body.split(";")
            if statement.strip()
            for field in statement.split(",")
        ]
        assert fields == [field[0] for field in native_library._STRUCTS[name]._fields_], name


@needs_native
def test_arguments_are_checked():
    with pytest.raises(ArgumentError):
        call("sv_scan_forward", byref(GraphOptions()), None)
    with pytest.raises(ArgumentError):
        call("sv_check_orders", None, 0.5, 1)


@needs_native
def test_an_exception_of_a_kernel_is_reported_with_its_text():
    with pytest.raises(NativeError, match=r"sv_check_orders failed: .*vector"):
        call("sv_check_orders", None, 0, TOO_LONG)


@needs_native
@pytest.mark.parametrize("threads", [1, 2])
def test_an_exception_in_a_parallel_region_is_reported_with_its_text(threads):
    options = SignOptions(images=3, tokens=TOO_LONG // 4, threads=threads)
    with pytest.raises(NativeError, match=r"sv_eigenvector_signs failed: .*vector"):
        call("sv_eigenvector_signs", byref(options), *[None] * 6)


@needs_native
def test_out_of_memory_is_a_memory_error():
    with pytest.raises(MemoryError, match="sv_check_orders"):
        call("sv_check_orders", None, 0, TOO_LARGE)


@needs_native
def test_the_text_of_an_error_belongs_to_the_thread_that_called():
    with pytest.raises(NativeError):
        call("sv_check_orders", None, 0, TOO_LONG)
    library = load_native().library
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(library.sv_last_error).result() == b""
    assert b"vector" in library.sv_last_error()
