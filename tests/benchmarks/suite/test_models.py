import pytest

from benchmarks.suite.model import measure_model
from benchmarks.suite.model_report import format_model, plot_model
from benchmarks.suite.models import measure_models
from benchmarks.suite.models_report import format_models, plot_models
from benchmarks.suite.scan import PASSES
from benchmarks.suite.settings import Settings
from spectral_vmamba.utils.progress import no_progress

pytestmark = pytest.mark.usefixtures("short_timing")


@pytest.mark.full
def test_models_section():
    result = measure_models(Settings(quick=True), no_progress)
    assert {speed.direction for speed in result.speeds} == set(PASSES)
    assert all(speed.comparison.timings.keys() == {speed.name, result.peer} for speed in result.speeds)
    (comparison,) = result.fused.values()
    assert comparison.timings["textbook"].difference < 3e-6  # measured: 3.8e-7
    assert "textbook" in format_models(result)[-1]
    names = {speed.name for speed in result.speeds}
    bars = plot_models(result).axes[0].patches
    assert len(bars) == 2 * len(names)
    ratios = {speed.comparison.ratio(result.peer, speed.name) for speed in result.speeds}
    assert {bar.get_width() for bar in bars} == ratios


def test_model_section():
    result = measure_model(Settings(quick=True), no_progress)
    assert result.throughput.keys() == set(PASSES)
    assert all(comparison.timings.keys() == {result.ours, result.peer} for comparison in result.throughput.values())
    assert f"the images per second of {result.peer}" in format_model(result)[-1]
    shares, speeds = plot_model(result).axes
    assert sum(bar.get_width() for bar in shares.patches) == pytest.approx(100)
    expected = [result.batch / t.seconds for c in result.throughput.values() for t in c.timings.values()]
    assert [bar.get_width() for bar in speeds.patches] == expected
