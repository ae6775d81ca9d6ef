"""Peak growth of the resident memory of this process.

The peak is Linux's VmHWM, which starts anew in each program; `ru_maxrss` starts at the value of the parent process.
"""

import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path

_STATUS = Path("/proc/self/status")


def measure_growth(step: Callable[[], object]) -> int:
    """Return the bytes by which resident memory grows, at its peak, while `step` runs. Not on Windows."""
    _reset_peak()
    before = _resident_bytes()
    step()
    return _peak_bytes() - before


def release_free_memory() -> None:
    """Give memory that this process has freed back to the system, where the C library can: it would hide growth."""
    gc.collect()
    if sys.platform == "win32":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _reset_peak() -> None:
    """Set the recorded peak to what is resident now, which Linux can do. Else the peak of an import may remain."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        print("the recorded peak could not be reset; small growths are understated", file=sys.stderr)


def _resident_bytes() -> int:
    return _read_status("VmRSS") if _STATUS.exists() else _peak_bytes()


def _peak_bytes() -> int:
    if _STATUS.exists():
        return _read_status("VmHWM")
    import resource  # there is none on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _read_status(key: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024
