"""`spectral-vmamba demo`."""

import re

from spectral_vmamba.cli import main


def test_the_report_is_self_contained_and_the_demo_can_be_repeated(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("spectral_vmamba.cli.demo._PHOTOGRAPHS", ("coffee",))
    folder = tmp_path / "demo"
    arguments = ["demo", "-o", str(folder), "--epochs", "1", "--step", "90"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "(0 flips)" in out
    report = (folder / "report.html").read_text()
    assert report.count("data:image/png;base64,") == len(list(folder.glob("*.png"))) == 8
    assert not re.search(r'(src|href)="(?!data:)', report)
    for fact in ("Spectral VMamba nano", "VMamba nano", "spectral-vmamba demo --epochs 1", "torch 2"):
        assert fact in report
    assert main(arguments) == 0, "a finished demo is measured again"
    assert "22 steps" in capsys.readouterr().out
