"""The benchmark of the frame's own error."""

import torch

from benchmarks.frame_errors import main, measure


def test_turns_move_the_frame_less_than_shifts(crops):
    images = (crops(16, 64) * 50 + 128).clamp(0, 255)
    results = measure(images)
    assert results["random turn, bilinear"]["median"] < 1
    assert results["shift by 2 px"]["median"] > results["random turn, bilinear"]["median"]
    assert all(0 <= value["median"] <= value["p95"] <= 180 for value in results.values())


def test_noise_moves_the_frame_a_little():
    torch.manual_seed(0)
    images = torch.rand(4, 3, 32, 32) * 255
    assert measure(images)["noise of 0.02"]["median"] < 20


def test_the_table_has_a_column_for_each_source(capsys):
    main(["digits", "--images", "20", "--size", "32"])
    out = capsys.readouterr().out
    assert "| change | digits |" in out
    assert "| zoom by 5 % |" in out
