"""A network that learns the predictions of a trained one."""

import signal
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference import load
from spectral_vmamba.training import SilentReporter, fit
from spectral_vmamba.training.distillation import Teacher, distance
from spectral_vmamba.utils.interruption import Interrupted
from tests.support.runs import CROPS_ONLY, digits_config, quick_config, tensors_equal
from tests.training.test_run import SignalAtStep

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def teacher_run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    return fit(digits_config(folder / "run", epochs=2, seed=5), reporter=SilentReporter()).folder


def test_the_distance_is_that_of_softened_predictions():
    logits, teacher = torch.randn(2, 5, 4, dtype=torch.float64)
    p, q = (teacher / 3).softmax(1), (logits / 3).softmax(1)
    expected = 9 * (p * (p / q).log()).sum(1).mean()
    torch.testing.assert_close(distance(logits, teacher, 3.0), expected)
    assert distance(teacher, teacher, 2.0) == 0
    assert torch.autograd.gradcheck(lambda x: distance(x, teacher, 2.0), logits.requires_grad_())


def test_the_teacher_answers_in_the_order_of_the_student(teacher_run):
    predictor = load(teacher_run)
    classes = tuple(reversed(predictor.classes))
    teacher = Teacher.load(str(teacher_run), classes, CPU)
    pixels = torch.randint(0, 256, (3, 3, 16, 16), dtype=torch.uint8)
    student = Preprocessing(16, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (student.mean, student.std))
    logits = teacher.logits((pixels / 255 - mean) / std, student)
    with torch.no_grad():
        expected = predictor.model(predictor.inputs(pixels)).flip(1)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    assert not logits.requires_grad


def test_the_teacher_sees_views_at_its_own_size(teacher_run):
    teacher = Teacher.load(str(teacher_run), load(teacher_run).classes, CPU)
    own = teacher.predictor.preprocessing
    coarse = torch.randn(2, 3, 8, 8)
    enlarged = F.interpolate(coarse, (16, 16), mode="bilinear", antialias=True)
    torch.testing.assert_close(teacher.logits(coarse, own), teacher.logits(enlarged, own), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mixup", [0.0, 0.8])
def test_students_come_closer_to_their_teacher(mixup, teacher_run, tmp_path):
    """With the share 1 the labels have no effect."""
    augment = replace(CROPS_ONLY, mixup=mixup)
    gaps = {}
    for name, given in (("alone", {}), ("taught", {"teacher": str(teacher_run), "teacher_share": 1.0})):
        config = digits_config(tmp_path / name, epochs=4, augment=augment, **given)
        student, teacher = (
            load(fit(config, reporter=SilentReporter()).folder / "last.safetensors", "raw"),
            load(teacher_run),
        )
        images = _pixels(config.data)
        with torch.no_grad():
            answers = [each.model(each.inputs(images)) for each in (student, teacher)]
        gaps[name] = float(distance(*answers, 1.0))
    assert gaps["taught"] < gaps["alone"] / 2


def _pixels(path):
    dataset = DataSplit(path, None, 0.2, 0).read().val
    images = [dataset.open(i).convert("RGB").resize((16, 16)) for i in range(32)]
    return torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in images])


@pytest.mark.full
def test_distillation_resumes_with_the_same_bits(teacher_run, tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("spectral_vmamba.training.engine"), "_REPORT_SECONDS", 0.0)
    config = digits_config(tmp_path / "whole", epochs=3, teacher=str(teacher_run))
    fit(config, reporter=SilentReporter())
    moved = tmp_path / "moved.safetensors"
    moved.write_bytes((teacher_run / "best.safetensors").read_bytes())
    resumed = replace(config, output=str(tmp_path / "resumed"))
    with pytest.raises(Interrupted):
        fit(resumed, reporter=SignalAtStep(signal.SIGINT, 7))
    other = fit(digits_config(tmp_path / "other", epochs=1), reporter=SilentReporter()).folder
    with pytest.raises(ValueError, match="or the teacher does"):
        fit(replace(resumed, teacher=str(other)), resume=True, reporter=SilentReporter())
    fit(replace(resumed, teacher=str(moved)), resume=True, reporter=SilentReporter())
    assert tensors_equal(tmp_path / "whole", tmp_path / "resumed")


def test_a_teacher_of_other_classes_is_refused(teacher_run):
    with pytest.raises(ValueError, match="has 10 classes and the data 2; expected the same ones"):
        Teacher.load(str(teacher_run), ("cat", "dog"), CPU)
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        Teacher.load("runs/nowhere", ("cat", "dog"), CPU)


def test_settings_out_of_range_are_refused():
    with pytest.raises(ValueError, match="teacher_share from 0 to 1, got 2"):
        quick_config(teacher_share=2.0)
    with pytest.raises(ValueError, match="teacher_temperature above 0, got 0"):
        quick_config(teacher_temperature=0.0)
    with pytest.raises(ValueError, match="set --no-cache, or leave out the teacher"):
        quick_config(teacher="runs/lite", cache=True, augment=CROPS_ONLY)
