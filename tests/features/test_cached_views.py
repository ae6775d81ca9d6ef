"""Names and pixels of cached views."""

from dataclasses import replace

import torch

from spectral_vmamba.data.dataset import digest_content
from spectral_vmamba.data.loader import TrainSamples
from spectral_vmamba.data.order import ViewIndex
from spectral_vmamba.data.transforms import Augmentation, Preprocessing
from spectral_vmamba.features import augmented_views, eval_view, rotated_views
from spectral_vmamba.ops.turns import UPRIGHT, Rotation, rotate_pixels

INPUT = Preprocessing(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
AUGMENT = Augmentation(rotation=45, erasing=0, mixup=0, cutmix=0)


def test_close_angles_and_other_fills_are_different_views():
    keys = rotated_views(INPUT, [Rotation(angle, "black") for angle in (51.428571, 51.4286, 51.0)]).keys(b"")
    assert len({*keys, *rotated_views(INPUT, [Rotation(51.0, "disk")]).keys(b"")}) == 4


def test_keys_depend_on_content_and_settings_that_change_pixels():
    views = augmented_views(AUGMENT, INPUT, 2)
    assert len({*views.keys(b"one"), *views.keys(b"two"), *eval_view(INPUT).keys(b"one")}) == 5
    same = augmented_views(replace(AUGMENT, rotation=45.0, smoothing=0.0, mixup=0.8), INPUT, 1)
    assert same.keys(b"one") == views.keys(b"one")[:1]
    assert set(augmented_views(replace(AUGMENT, hflip=0.1), INPUT, 2).keys(b"one")).isdisjoint(views.keys(b"one"))


def test_augmented_views_are_those_of_training(dataset):
    views = augmented_views(AUGMENT, INPUT, 3)
    samples = TrainSamples(dataset, AUGMENT.train_transform(INPUT), seed=5, view_count=3)
    digest = digest_content(dataset.storage.content(4))
    for number, pixels in enumerate(views.render(dataset.open(4), digest, range(3))):
        assert torch.equal(pixels, samples[ViewIndex(number + 6, 4)].view.pixels)


def test_rotated_views_are_rotated_evaluation_views(dataset):
    image = dataset.open(2)
    upright = eval_view(INPUT).render(image, b"", [0])[0]
    rotations = [Rotation(0.0, "disk"), Rotation(90.0, "disk"), Rotation(30.0, "reflect")]
    views = rotated_views(INPUT, rotations).render(image, b"", [2, 0])
    for number, rotation in enumerate((rotations[2], rotations[0])):
        assert torch.equal(views[number], rotate_pixels(upright[None], *rotation)[0])


def test_the_upright_view_is_the_evaluation_view(dataset):
    """Its features are those that training cached for validation."""
    views = rotated_views(INPUT, [UPRIGHT])
    assert views.names == eval_view(INPUT).names
    (pixels,) = views.render(dataset.open(2), b"", [0])
    assert torch.equal(pixels, eval_view(INPUT).render(dataset.open(2), b"", [0])[0].float())
