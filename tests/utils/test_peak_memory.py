import subprocess
import sys

from benchmarks.suite.memory import REPOSITORY


def test_growth_by_an_allocation():
    """In a process of its own: this one may have used more memory before. Measured: 1.02 of the 64 MiB."""
    code = """if True:
        import torch
        from spectral_vmamba.utils.peak_memory import measure_growth
        print(measure_growth(lambda: torch.ones(2**24)))"""
    probe = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert 0.98 < int(probe.stdout) / 2**26 < 1.1
