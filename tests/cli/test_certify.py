"""`spectral-vmamba certify`."""

import hashlib
import json
import re
import shlex

import pytest

from spectral_vmamba.cli import main
from spectral_vmamba.models.framing import quarter_frame
from spectral_vmamba.ops.turns import turn


def train_vmamba(data, output, **options) -> str:
    model_options = json.dumps({"widths": [8, 16], "depths": [1, 1], **options})
    arguments = ["--data", str(data), "--output", str(output), "--epochs", "1", "--workers", "0", "--device", "cpu"]
    model = ["--recipe", "laptop", "--model", "vmamba_nano", "--model-options", model_options, "--tracker", "none"]
    assert main(["train", *model, *arguments]) == 0
    return str(output)


def test_an_invariant_network_passes(run_folder, digit_folders, capsys):
    assert main(["certify", str(run_folder), "--data", str(digit_folders), "--limit", "40"]) == 0
    out = capsys.readouterr().out
    assert "checked 40 of 200 images" in out
    assert "tensor (quarter turns): promised, same bits. The frame turns" in out
    assert "no-frame (quarter turns): promised, |Δp| ≤ 1e-05. RFN and STS together" in out
    assert "jpeg 75, resized −2 %, resized +2 %): measured, not promised." in out
    assert "passed: 3 of 3 promised conditions hold" in out
    assert out.count("│ measured │") == 4


def test_images_need_no_labels(run_folder, digit_folders, tmp_path, capsys):
    for i, path in enumerate(sorted(digit_folders.rglob("*.png"))[:5]):
        (tmp_path / f"{i}.png").write_bytes(path.read_bytes())
    (tmp_path / "bad.png").write_bytes(b"not an image")
    assert main(["certify", str(run_folder), "--data", str(tmp_path), "--levels", "tensor", "--angles", "15"]) == 0
    out = capsys.readouterr().out
    assert "checked 5 of 6 images" in out
    assert "1 could not be read" in out
    assert re.search(r"│ angles +│ 15° black +│ 5 ", out)
    assert "no-frame" not in out


def test_a_network_that_promises_nothing_has_exit_code_1(digit_folders, tmp_path, capsys):
    run = train_vmamba(digit_folders, tmp_path / "run")
    assert main(["certify", run, "--limit", "20", "--levels", "tensor", "no-frame"]) == 1
    assert "nothing to certify: this network promises no level; measured: " in capsys.readouterr().out


def test_a_broken_frame_has_exit_code_1(digit_folders, tmp_path, capsys, monkeypatch):
    run = train_vmamba(digit_folders, tmp_path / "run", frame="quarter")
    arguments = ["certify", run, "--limit", "20", "--levels", "tensor"]
    assert main(arguments) == 0

    def broken_frame(images):
        framed, frame = quarter_frame(images)
        framed[:3] = turn(images[:3], 0)
        return framed, frame

    monkeypatch.setattr("spectral_vmamba.models.framing.quarter_frame", broken_frame)
    assert main(arguments) == 1
    assert "FAILED: 0 of 1 promised conditions hold; not tensor (quarter turns)" in capsys.readouterr().out


@pytest.fixture(scope="module")
def output(run_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate") / "new"
    options = ["--levels", "tensor", "--angles", "15", "45", "--limit", "6", "--output", str(folder)]
    assert main(["certify", str(run_folder), *options]) == 0
    return folder


def test_the_json_has_counts_and_provenance(output, run_folder):
    stored = json.loads((output / "certificate.json").read_text())
    assert [check["condition"] for check in stored["certificate"]["checks"]] == [
        "quarter turns",
        "15° black",
        "45° black",
    ]
    assert stored["certificate"]["checks"][0]["images"] == 6
    provenance = stored["provenance"]
    checkpoint = run_folder / "best.safetensors"
    assert provenance["checkpoint SHA-256"] == hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    assert "torch 2" in provenance["versions"]


def test_the_stored_command_repeats_the_check(output, run_folder):
    stored = json.loads((output / "certificate.json").read_text())
    program, *arguments = shlex.split(stored["provenance"]["command"])
    assert program == "spectral-vmamba"
    repeated = output.parent / "repeated"
    assert main([*arguments, "--output", str(repeated)]) == 0
    assert json.loads((repeated / "certificate.json").read_text())["certificate"] == stored["certificate"]


def test_the_page_has_the_verdict(output):
    page = (output / "certificate.html").read_text()
    assert "Passed: 1 of 1 promised conditions hold." in page
    assert "spectral-vmamba certify" in page


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--limit", "0"], 1, "expected a limit of at least 1 image, got 0"),
        (["--levels", "pixels"], 2, "pixels"),
        (["--output", "/proc/no/folder"], 1, "/proc/no/folder"),
    ],
)
def test_wrong_options(run_folder, capsys, options, code, message):
    try:
        result = main(["certify", str(run_folder), *options])
    except SystemExit as stop:
        result = stop.code
    assert result == code
    assert message in capsys.readouterr().err
