from subprocess import CompletedProcess

import pytest

pytest.importorskip("segmentation_models_pytorch", reason="needs the extra `segment`")

from benchmarks.suite import segmenters
from benchmarks.suite.segmenters import SegmenterCell, _fit_growth, measure_segmenters
from benchmarks.suite.segmenters_report import format_segmenters, plot_segmenters
from benchmarks.suite.settings import Settings
from spectral_vmamba.utils.progress import no_progress


def test_measures_windows_and_whole_images(monkeypatch):
    def run_probe(subject, options):
        assert subject == "segmenter:segment_nano"
        return CompletedProcess([], options["side"] == 32, "5000000\n", "Traceback\nMemoryError")

    monkeypatch.setattr(segmenters, "run_probe", run_probe)
    result = measure_segmenters(Settings(quick=True), no_progress)
    (network,) = result.networks
    assert [(cell.side, cell.window, cell.tokens) for cell in network.cells] == [(32, 48, 64), (64, 48, 144)]
    assert [(cell.side, cell.window, cell.tokens) for cell in network.whole] == [(64, 64, 256)]
    for cell in (*network.cells, *network.whole):
        assert 0 < cell.sts_share < 1
    assert [cell.bytes for cell in network.cells] == [None, 5_000_000]
    assert result.notices == ["memory of segment_nano at 32 px: MemoryError"]
    assert any("pixels^" in str(line) for line in format_segmenters(result))
    time_axis, memory_axis = plot_segmenters(result).axes
    assert len(time_axis.lines) == 2
    assert list(memory_axis.lines[0].get_xdata()) == [64]


def test_growth_is_the_power_of_the_number_of_pixels():
    """Twice the side: four times the pixels. Time ∝ pixels, memory ∝ √pixels, of the three largest sizes."""
    cells = [SegmenterCell(side, 512, 1, side**2, 0.0, side) for side in (256, 512, 1024)]
    growth = _fit_growth("segment_nano", [SegmenterCell(128, 512, 1, 1e9, 0.0, 1), *cells], [])
    assert growth.fitted_from == 256
    assert growth.time_growth == pytest.approx(1)
    assert growth.memory_growth == pytest.approx(0.5)
