"""Unreadable images and other failures of training."""

from dataclasses import replace

import numpy as np
import pytest

from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.training import SilentReporter, TrainingError, fit
from spectral_vmamba.training.failures import UnreadableImages, explain_failure
from spectral_vmamba.training.run import RunFolder
from tests.support.image_folders import write_noise
from tests.support.runs import NoteReporter, digits_config


def test_unreadable_images_are_ignored_listed_and_limited(tmp_path):
    data = tmp_path / "data"
    write_noise(data / "train")
    write_noise(data / "val", count=4)
    damaged = data / "train" / "a" / "3.png"
    damaged.write_bytes(b"no image")
    (data / "val" / "b" / "1.png").write_bytes(b"no image")
    config = digits_config(tmp_path / "run", data=str(data), batch_size=8, epochs=2, max_unreadable=0.1)
    reporter = NoteReporter()
    result = fit(config, reporter=reporter)
    listed = f"a/3.png\t{damaged} cannot be read as an image: unknown format\n"
    validation = f"b/1.png\t{data / 'val' / 'b' / '1.png'} cannot be read as an image: unknown format\n"
    assert (tmp_path / "run" / "unreadable.txt").read_text() == listed + validation
    reason = "cannot be read as an image: unknown format"
    assert reporter.notes.count(f"ignored: {damaged} {reason}") == 1
    validation_note = f"1 validation image ignored: b/1.png ({data / 'val' / 'b' / '1.png'} {reason})"
    assert reporter.notes.count(validation_note) == 1, "raw and averaged weights"
    assert result.history[0].raw * 7 == pytest.approx(round(result.history[0].raw * 7)), "seven readable images"
    strict = replace(config, max_unreadable=0.0, output=str(tmp_path / "strict"))
    with pytest.raises(ValueError, match=r"1 of 40 training images cannot be used, more than 0.00%: a/3.png"):
        fit(strict, reporter=SilentReporter())
    assert (tmp_path / "strict" / "unreadable.txt").read_text() == listed
    damaged.unlink()
    fit(strict, reporter=SilentReporter())
    assert (tmp_path / "strict" / "unreadable.txt").read_text() == validation, "the list of the failed run is replaced"


def test_each_unreadable_image_counts_once(tmp_path):
    dataset, notes = read_digits(), []
    unreadable = UnreadableImages(dataset, 2 / len(dataset), RunFolder(tmp_path), notes.append)
    for index in (7, 3, 7):
        unreadable.add([ReadError(index, f"{index}.png", "damaged")])
    assert (tmp_path / "unreadable.txt").read_text() == "3.png\tdamaged\n7.png\tdamaged\n"
    assert len(notes) == 2
    with pytest.raises(
        ValueError, match=r"3 of 1,797 training images .*: 3.png, 7.png, 9.png .3.png: damaged.; .*--max-unreadable"
    ):
        unreadable.add([ReadError(9, "9.png", "damaged")])


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (TrainingError("not finite"), TrainingError, r"not finite \(no checkpoint was saved yet\)"),
        (ValueError("Caught ValueError in DataLoader worker\nValueError: no label"), ValueError, "^no label$"),
        (ValueError("plain"), ValueError, "^plain$"),
        (
            RuntimeError("DataLoader worker (pid 7) exited"),
            OSError,
            "data loading process died, possibly out of memory",
        ),
        (RuntimeError("[gloo] Connection reset"), OSError, "another process of this job died; resume with --resume"),
        (RuntimeError("something else"), RuntimeError, "something else"),
    ],
)
def test_failures_are_explained(tmp_path, error, kind, message):
    explained = explain_failure(error, RunFolder(tmp_path))
    assert type(explained) is kind
    with pytest.raises(kind, match=message):
        raise explained


def test_explanations_name_the_last_checkpoint(tmp_path):
    (tmp_path / "last.safetensors").touch()
    explained = explain_failure(TrainingError("not finite"), RunFolder(tmp_path))
    assert str(explained) == f"not finite (the last checkpoint is {tmp_path / 'last.safetensors'})"


def test_one_unreadable_image_of_a_small_dataset_is_allowed(tmp_path):
    dataset, notes = read_digits().subset(np.arange(20)), []
    unreadable = UnreadableImages(dataset, 0.01, RunFolder(tmp_path), notes.append)
    unreadable.add([ReadError(0, "0.png", "damaged")])
    with pytest.raises(ValueError, match="2 of 20 training images cannot be used"):
        unreadable.add([ReadError(1, "1.png", "damaged")])
