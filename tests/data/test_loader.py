"""Views are a function of (seed, epoch, image): whoever makes them, and however the work is shared."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spectral_vmamba.data.loader import FixedViews, Key, Order, RandomViews, in_batches, load
from spectral_vmamba.data.readers.digits import digits
from spectral_vmamba.data.readers.npz import of_pixels
from spectral_vmamba.data.seeding import generators_kept, reseed
from spectral_vmamba.data.transforms import Augmentation, Preprocessing, canonical_image

INPUT = Preprocessing(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
STRONG = Augmentation(turn=45.0)


@given(st.integers(1, 60), st.integers(1, 16), st.integers(0, 5))
def test_an_epoch_visits_every_image_at_most_once(images, batch, seed):
    order = Order(images, batch, seed)
    steps = order.steps_per_epoch
    seen = [key for part in order.parts(3 * steps, 4 * steps, 1, 0, 1) for key in part]
    assert {key.epoch for key in seen} == {3}
    numbers = [key.image for key in seen]
    assert len(set(numbers)) == len(numbers) == min(steps * batch, images)


@given(st.integers(0, 30), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]))
def test_processes_and_parts_share_the_same_batch(first, parts, processes):
    order = Order(50, 16, seed=3)
    whole = [[key.image for key in step] for step in order.parts(first, first + 4, 1, 0, 1)]
    shares = [list(order.parts(first, first + 4, parts, mine, processes)) for mine in range(processes)]
    for step in range(4):
        together = [
            key.image for part in range(parts) for mine in range(processes) for key in shares[mine][step * parts + part]
        ]
        assert together == whole[step]


def test_starting_later_is_the_same_as_having_started_before():
    order = Order(50, 16, seed=0)
    whole = list(order.parts(0, 12, 2, 0, 1))
    assert list(order.parts(5, 12, 2, 0, 1)) == whole[10:]


@pytest.mark.parametrize("workers", [1, 2])
def test_worker_processes_change_nothing(workers):
    views = RandomViews(digits(), STRONG.view(INPUT), seed=0)
    batches = [[Key(1, i) for i in range(5)], [Key(1, i) for i in range(5, 9)]]
    alone = list(load(views, batches, workers=0))
    shared = list(load(views, batches, workers=workers))
    for a, b in zip(alone, shared, strict=True):
        assert torch.equal(a.views, b.views)
        assert torch.equal(a.labels, b.labels)


def test_epochs_and_seeds_see_other_views():
    images = digits()
    first, again = (RandomViews(images, STRONG.view(INPUT), seed=0)[Key(0, 7)].view for _ in range(2))
    later = RandomViews(images, STRONG.view(INPUT), seed=0)[Key(1, 7)].view
    other = RandomViews(images, STRONG.view(INPUT), seed=1)[Key(0, 7)].view
    assert torch.equal(first, again)
    assert not torch.equal(first, later)
    assert not torch.equal(first, other)


def test_seeding_leaves_the_shared_generators_as_they_were():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    with generators_kept():
        reseed(1, 2, 3)
        torch.rand(7)
        np.random.rand()  # noqa: NPY002
    assert torch.equal(torch.rand(2), expected)


class Broken:
    """Opens even numbers only."""

    def __call__(self, i):
        if i % 2:
            raise ValueError(f"{i} is broken")
        return digits().opener(i)


def half_broken():
    from dataclasses import replace

    return replace(digits().subset(np.arange(6)), opener=Broken())


def test_in_place_of_a_broken_image_comes_the_next():
    views = RandomViews(half_broken(), STRONG.view(INPUT), seed=0)
    (batch,) = load(views, [[Key(0, 1), Key(0, 2), Key(0, 5)]], workers=0)
    assert batch.images == [2, 2, 0]
    assert batch.broken == [1, 5]


def test_measuring_leaves_broken_images_out():
    (batch,) = load(FixedViews(half_broken(), INPUT.pixels()), in_batches(6, 6), workers=0)
    assert batch.images == [0, 2, 4]
    assert batch.broken == [1, 3, 5]
    assert batch.views.dtype == torch.uint8
    (nothing,) = load(FixedViews(half_broken(), INPUT.pixels()), [[1, 3]], workers=0)
    assert nothing.images == []


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_the_canonical_image_is_the_same_for_all_quarter_turns(height, width, seed, quarters):
    from PIL import Image

    pixels = np.random.default_rng(seed).integers(0, 3, (height, width, 3), dtype=np.uint8)
    one = canonical_image(Image.fromarray(pixels))
    other = canonical_image(Image.fromarray(np.ascontiguousarray(np.rot90(pixels, quarters))))
    assert one.tobytes() == other.tobytes()
    assert one.size == other.size


def test_views_are_pixels():
    white = of_pixels(np.full((1, 40, 40), 255), np.array([0]), "w")
    plain = Augmentation(hflip=0, color_jitter=0, auto_augment="")
    assert (plain.view(INPUT)(white.opener(0)) == 255).all()


def test_erasing_changes_a_rectangle_of_some_images():
    reseed(0)
    images = Augmentation(erasing=0.5).eraser("cpu")(torch.zeros(16, 3, 32, 32))
    erased = (images != 0).flatten(1).sum(1)
    assert 0 < (erased > 0).sum() < 16
    assert erased.max() < 3 * 32 * 32
    assert (Augmentation(erasing=0.0).eraser("cpu")(torch.zeros(16, 3, 32, 32)) == 0).all()


@pytest.mark.parametrize("policy", ["rand-m9-mstd0.5-inc1", "rand-m10-n6-inc1", "augmix-m10", "original", "3a"])
def test_every_automatic_augmentation_runs(policy):
    """Posterizing to 0 bits among them, which Pillow refuses."""
    view = Augmentation(auto_augment=policy).view(INPUT)
    image = digits().opener(3)
    for i in range(60):
        reseed(i)
        assert view(image).shape == (3, 32, 32)
