import json
import math

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from benchmarks.suite.runner import SECTIONS, _to_json, run_sections
from benchmarks.suite.settings import Settings


@pytest.mark.usefixtures("short_timing")
def test_writes_numbers_and_plots(tmp_path, capsys):
    run_sections(["scan", "limits"], Settings(quick=True), tmp_path, Console(width=200))
    out = capsys.readouterr().out
    assert "the fastest peer" in out
    assert "GFLOP/s" in out
    report = json.loads((tmp_path / "bench.json").read_text())
    assert report["command"].startswith("python -m benchmarks --only scan limits --quick --threads 1 --seed 0")
    assert report["threads"] == 1
    assert report["environment"]["packages"]["torch"]
    assert set(report["sections"]) == {"scan", "limits"}
    scan, limits = report["sections"]["scan"], report["sections"]["limits"]
    for cell in scan["cells"]:
        assert not cell["comparison"]["failures"]
        assert cell["comparison"]["timings"].keys() >= {"torch loop", "HF slow path", "portable", scan["ours"]}
        assert all(timing["seconds"] > 0 for timing in cell["comparison"]["timings"].values())
    assert {cell["direction"] for cell in scan["cells"]} == {"forward", "forward+backward"}
    assert limits["products"]["calls"] > 0
    for name in ("scan.png", "limits.png"):
        pixels = np.asarray(Image.open(tmp_path / name).convert("L"))
        assert (pixels < 128).mean() > 0.01  # bars and text, not an empty sheet


def test_every_section_is_listed():
    assert list(SECTIONS) == ["scan", "memory", "eigenvectors", "model", "models", "limits", "segmenters"]


def test_json_has_no_nan_and_no_number_as_key():
    assert _to_json({1: (math.nan, 2.0), "a": [math.inf, {"b": None}]}) == {"1": [None, 2.0], "a": [None, {"b": None}]}
