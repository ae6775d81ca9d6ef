"""Settings of a training run."""

import pytest

from spectral_vmamba.training import TrainConfig
from tests.support.caches import ROTATED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs of at least 1, got 0"),
        ({"accumulate": 3}, "cannot divide 128 images into 3 equal micro-batches"),
        ({"ema": 1.0}, "0 ≤ ema < 1, got 1.0"),
        ({"max_unreadable": 2}, "0 ≤ max_unreadable ≤ 1, got 2"),
        ({"min_steps": -1}, "min_steps of at least 0"),
        ({"views": -1}, "expected a number of views"),
        ({"cache": True}, r"cannot be changed by erasing, mixup, cutmix; set --augment\.erasing 0 --augment\.mixup 0"),
    ],
)
def test_impossible_settings_are_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**changes)


def test_the_number_of_views():
    assert TrainConfig().view_count == 0
    assert TrainConfig(views=3).view_count == 3
    assert TrainConfig(cache=True, augment=ROTATED).view_count == 8
    assert TrainConfig(cache=True, augment=ROTATED, views=3).view_count == 3


def test_paths_become_absolute_and_names_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    config = TrainConfig(data="photos", val_data="digits").with_absolute_paths()
    assert (config.data, config.val_data, config.initial) == (str(tmp_path / "photos"), "digits", None)
    assert config.split.data == str(tmp_path / "photos")
