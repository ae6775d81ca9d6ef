"""Peak growth of the resident memory of this process.

The peak is Linux's VmHWM, which starts anew in each program; `ru_maxrss` starts at the value of the parent process.
"""

import resource
import sys
from collections.abc import Callable
from pathlib import Path

_STATUS = Path("/proc/self/status")


def measure_growth(step: Callable[[], object]) -> int:
    """Return the bytes by which resident memory grows, at its peak, while `step` runs."""
    _reset_peak()
    before = _resident_bytes()
    step()
    return _peak_bytes() - before


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
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _read_status(key: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024
