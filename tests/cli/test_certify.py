"""`spectral-vmamba certify`."""

from spectral_vmamba.cli import main
from tests.support.commands import SMALL_NETWORK


def test_an_invariant_network_passes(run_folder, digit_folders, capsys):
    assert main(["certify", str(run_folder), "--data", str(digit_folders)]) == 0
    out = capsys.readouterr().out
    assert "200 images" in out
    assert "flipped predictions: 0" in out
    assert "passed: invariant to quarter turns" in out


def test_images_need_no_labels(run_folder, digit_folders, tmp_path, capsys):
    for i, path in enumerate(sorted(digit_folders.rglob("*.png"))[:5]):
        (tmp_path / f"{i}.png").write_bytes(path.read_bytes())
    (tmp_path / "bad.png").write_bytes(b"not an image")
    assert main(["certify", str(run_folder), "--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "5 images" in out
    assert "1 unreadable images were skipped" in out


def test_another_network_fails_with_exit_code_1(digit_folders, tmp_path, capsys):
    output = str(tmp_path / "run")
    options = ["--data", str(digit_folders), "--output", output, "--epochs", "1", "--workers", "0", *SMALL_NETWORK]
    assert main(["train", "--recipe", "laptop", "--model", "vmamba_nano", *options]) == 0
    assert main(["certify", output]) == 1
    assert "FAILED: not invariant to quarter turns" in capsys.readouterr().out
