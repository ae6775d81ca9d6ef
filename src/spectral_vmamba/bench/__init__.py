"""The benchmark: this package against other ways to do the same, in one process, as ratios.

A section is `measure_*` (numbers), `show_*` (tables) and `plot_*` (a image); `run.py` lists them.
"""

from spectral_vmamba.bench.run import SECTIONS, run_bench
from spectral_vmamba.bench.settings import Settings

__all__ = ["SECTIONS", "Settings", "run_bench"]
