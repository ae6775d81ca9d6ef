import numpy as np
import torch

from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.models import SpectralConfig, SpectralTokenizer
from spectral_vmamba.ops.native import Native, load_native
from spectral_vmamba.ops.selective_scan import api
from spectral_vmamba.plots.traversal_plots import measure_traversal, plot_traversals
from spectral_vmamba.testing import RotationGap


def test_traversal_steps_turn_with_the_image(crops):
    tokenizer = SpectralTokenizer(SpectralConfig(stem="conv", widths=(16,), depths=(1,), patch_size=8))
    image = torch.rand(3, 40, 56) * 255
    pair = measure_traversal(tokenizer, image, 90.0, (0.5,) * 3, (0.5,) * 3, "noise")
    assert pair.unchanged == 1
    assert pair.steps[0].shape == (4, 5, 7)
    assert np.array_equal(np.rot90(pair.steps[0], axes=(1, 2)), pair.steps[1])
    assert np.allclose(np.sort(pair.steps[0][0].ravel()), np.linspace(0, 1, 35))
    figure = plot_traversals([pair])
    assert len([axis for axis in figure.axes if axis.images]) >= 10


def test_disk_leaves_cells_outside_empty():
    tokenizer = SpectralTokenizer(SpectralConfig(stem="conv", widths=(16,), depths=(1,), patch_size=8, domain="disk"))
    pair = measure_traversal(tokenizer, torch.rand(3, 64, 64) * 255, 45.0, (0.5,) * 3, (0.5,) * 3)
    assert np.isnan(pair.steps[0][:, 0, 0]).all()
    assert not np.isnan(pair.steps[0][:, 4, 4]).any()
    assert pair.unchanged is None


def test_rotation_plot_has_a_line_for_each_model():
    gaps = [RotationGap(angle, 4, 0, 0.1, 0.05) for angle in (90, 180)]
    figure = plot_rotation({"one": gaps, "two": gaps}, "a test")
    assert [line.get_label() for line in figure.axes[0].lines[:2]] == ["one", "two"]


def test_environment_says_what_runs():
    environment = measure_environment()
    assert environment.packages["torch"].startswith("2")
    missing = load_native().reason
    assert environment.backends["native"] == (f"missing: {missing}" if missing else "available")


def test_environment_says_why_something_is_missing(monkeypatch):
    monkeypatch.setattr(api, "load_native", lambda: Native(None, "no compiler"))
    assert measure_environment().backends["native"] == "missing: no compiler"
    monkeypatch.setenv("SPECTRAL_VMAMBA_BACKEND", "native")
    assert "not available: no compiler" in measure_environment().backends["auto"]
