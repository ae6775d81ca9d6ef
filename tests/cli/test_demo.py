"""`spectral-vmamba demo`."""

import re

import pytest

from spectral_vmamba.cli import main
from tests.support.runs import write_digits


@pytest.mark.full
def test_the_report_is_self_contained_and_the_demo_can_be_repeated(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("spectral_vmamba.studies.traversal_study.IMAGES", ("coffee",))
    monkeypatch.setattr("spectral_vmamba.cli.demo._DATA", str(write_digits(tmp_path)))
    folder = tmp_path / "demo"
    arguments = ["demo", "-o", str(folder), "--epochs", "1", "--step", "90"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    flips = [int(count) for count in re.findall(r"\((\d+) flips\)", out)]
    assert flips[:3] == [0, 0, 0]
    assert flips[3] > 0, "VMamba without a frame"
    report = (folder / "report.html").read_text()
    assert report.count("data:image/png;base64,") == len(list(folder.glob("*.png"))) == 10
    assert not re.search(r'(src|href)="(?!data:)', report)
    first = re.sub(r"\s+", " ", out[: out.index("now four networks are trained")])
    assert re.search(r"\d+ digits: .* upright, at least .* at 4 angles; 0 of [\d,]+ predictions change", first)
    assert "Spectral VMamba nano, frame moment" not in first
    for fact in (
        "spectral_vmamba_nano.digits, which was trained before",
        "Spectral VMamba nano",
        "VMamba nano, frame moment",
        "spectral-vmamba demo --epochs 1",
        "torch 2",
    ):
        assert fact in report
    rows = [re.findall(r"<td>([^<]*)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", report)]
    results = {(row[0], row[1]): row[-1] for row in rows if row and row[1] in ("tensor", "no-frame")}
    assert results == {
        ("Spectral VMamba nano, frame moment", "tensor"): "passed",
        ("Spectral VMamba nano, frame moment", "no-frame"): "passed",
        ("Spectral VMamba nano", "tensor"): "passed",
        ("Spectral VMamba nano", "no-frame"): "passed",
        ("VMamba nano", "tensor"): "measured",
        ("VMamba nano", "no-frame"): "measured",
        ("VMamba nano, frame moment", "tensor"): "passed",
        ("VMamba nano, frame moment", "no-frame"): "measured",
    }
    assert main(arguments) == 0, "a finished demo is measured again"
    assert "5 steps" in capsys.readouterr().out
