"""The benchmark of the frame's own error."""

from io import BytesIO

import numpy as np
import torch
from PIL import Image

from benchmarks.frame_errors import main, measure, read_pixels


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


def test_packs_without_labels_are_read_at_their_own_size(tmp_path):
    stream = BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (12, 20, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, "PNG")
    content = np.frombuffer(stream.getvalue(), np.uint8)
    arrays = {"data": np.concatenate([content, content]), "offset": np.array([0, 1, 2]) * len(content)}
    np.savez(tmp_path / "pack.npz", **arrays, mask_data=content, classes=np.array(["sky"]))
    images = read_pixels(str(tmp_path / "pack.npz"), 5, 0)
    assert images.shape == (2, 3, 12, 20)
    assert np.array_equal(images[1].permute(1, 2, 0).numpy(), pixels)
    assert read_pixels(str(tmp_path / "pack.npz"), 1, 8).shape == (1, 3, 8, 8)
