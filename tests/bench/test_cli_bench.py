"""`spectral-vmamba bench` as a person meets it."""

import json
import sys

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.cli import main


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_help_teaches(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["bench", "--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    for word in (
        "scan",
        "memory",
        "eigenvectors",
        "model",
        "models",
        "limits",
        "Example",
        "--quick",
        "--threads",
        "--output",
    ):
        assert word in out


def test_writes_numbers_and_images(tmp_path, capsys):
    arguments = ["--quick", "--only", "scan", "limits", "--threads", "1", "-o", str(tmp_path / "results")]
    assert main(["bench", *arguments]) == 0
    out = capsys.readouterr().out
    assert "the fastest peer" in out
    assert "GFLOP/s" in out
    report = json.loads((tmp_path / "results" / "bench.json").read_text())
    assert report["command"].startswith("spectral-vmamba bench --only scan limits --quick --threads 1 --seed 0")
    assert report["threads"] == 1
    assert report["seed"] == 0
    assert report["environment"]["packages"]["torch"]
    assert set(report["sections"]) == {"scan", "limits"}
    scan, limits = report["sections"]["scan"], report["sections"]["limits"]
    for cell in scan["cells"]:
        assert not cell["comparison"]["failures"]
        for timing in cell["comparison"]["timings"].values():
            assert timing["seconds"] > 0
            assert timing["repeats"] >= 2
    assert {cell["direction"] for cell in scan["cells"]} == {"forward", "forward+backward"}
    assert {"torch loop", "HF slow path", "portable", scan["ours"]} <= scan["cells"][0]["comparison"]["timings"].keys()
    assert limits["copy_bandwidth"] > 1e8
    for name in ("scan.png", "limits.png"):
        assert np.asarray(Image.open(tmp_path / "results" / name)).std() > 10


def test_goes_on_without_mambapy(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "mambapy.pscan", None)
    monkeypatch.setattr("spectral_vmamba.bench.timing.repeats_for", lambda seconds: 1)
    assert main(["bench", "--quick", "--only", "scan", "--threads", "1", "-o", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "pip install --no-deps mambapy" in out
    assert "mambapy pscan" not in out


@pytest.mark.parametrize(
    ("arguments", "message"), [(["--only", "scans"], "scans"), (["--threads", "-1"], "expected a number of threads")]
)
def test_bad_input_is_a_clear_error(arguments, message, tmp_path, capsys):
    try:
        code = main(["bench", "-o", str(tmp_path), *arguments])
    except SystemExit as stop:
        code = stop.code
    assert code not in (0, None)
    assert message in capsys.readouterr().err
