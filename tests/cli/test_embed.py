"""`spectral-vmamba embed`."""

import io

import numpy as np

from spectral_vmamba.cli import main


def test_a_finished_folder_is_not_computed_again(photo_folders, embeddings, capsys):
    arguments = ["embed", str(photo_folders), "-o", str(embeddings), "--image-size", "64"]
    assert main([*arguments, "--shard-size", "3"]) == 0
    assert f"8 images, vectors of length 1392, already complete, in {embeddings}" in capsys.readouterr().out
    assert main(arguments) == 1
    assert "shard_size 3 (now 4096)" in capsys.readouterr().err


def test_unreadable_images_are_listed_and_the_exit_code_is_1(photo_folders, tmp_path, capsys, monkeypatch):
    (tmp_path / "bad.png").write_bytes(b"not an image")
    names = [str(photo_folders / "even"), str(tmp_path / "bad.png"), str(tmp_path / "*.gif")]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(names) + "\n"))
    options = ["--format", "npy", "--image-size", "64"]
    assert main(["embed", "-", "-o", str(tmp_path / "out"), *options]) == 1
    captured = capsys.readouterr()
    assert "4 images, vectors of length 1392" in captured.out
    assert "images/s" in captured.out
    assert "bad.png cannot be read as an image" in captured.err
    assert f"2 images could not be read; see {tmp_path / 'out' / 'unreadable.txt'}" in captured.err
    assert np.load(tmp_path / "out" / "vectors.npy").shape == (4, 1392)
    assert len((tmp_path / "out" / "unreadable.txt").read_text().splitlines()) == 2


def test_standard_input_must_not_be_empty(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert main(["embed", "-", "-o", str(tmp_path / "out")]) == 1
    assert "expected paths of images on standard input" in capsys.readouterr().err
