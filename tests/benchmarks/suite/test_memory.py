from subprocess import CompletedProcess

from benchmarks.suite import memory
from benchmarks.suite.memory_report import format_memory, plot_memory
from benchmarks.suite.settings import Settings
from spectral_vmamba.utils.progress import no_progress


def test_groups_ratios_and_failures(monkeypatch):
    """Probes that report known bytes: ours 10 MB, the others 30 MB, and Swin-T out of memory."""

    def run_probe(subject, options):
        if "swin" in subject:
            return CompletedProcess([], 1, "", "Traceback\nRuntimeError: out of memory")
        ours = subject in ("mixer:native", "model:spectral_vmamba_tiny")
        assert options["side"] == (14 if subject.startswith("mixer:") else 224)
        return CompletedProcess([], 0, "10000000\n" if ours else "30000000\n")

    monkeypatch.setattr(memory, "run_probe", run_probe)
    monkeypatch.setattr(memory, "choose_backend", lambda: ("native", []))
    result = memory.measure_memory(Settings(), no_progress)
    mixers, models = result.groups
    assert mixers.ours == "native"
    assert mixers.ratio("torch loop") == 3.0
    assert models.bytes == {"spectral_vmamba_tiny": 10_000_000}
    assert models.failures == {"swin_tiny_patch4_window7_224": "RuntimeError: out of memory"}
    assert "swin_tiny_patch4_window7_224: RuntimeError: out of memory" in format_memory(result)
    first, second = plot_memory(result).axes
    assert [bar.get_width() for bar in first.patches] == [value / 1e6 for value in mixers.bytes.values()]
    assert len(second.patches) == 1
