"""Sliding windows: they cover the image, are symmetric, and blend to the same bits in any order."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.segmentation.windows import blend_windows, softmax, weight_profile, window_starts


def pointwise(images):
    """Logits of four classes that depend on the color of the pixel only."""
    red, green, blue = (images[:, i].double() / 255 for i in range(3))
    return torch.stack([red * 3, green * green * 4, (red - blue).sin() * 5, blue.exp()], 1).float()


def by_mean(images):
    """Logits that depend on the whole window, symmetrically: windows disagree about a pixel."""
    return pointwise(images) + images.long().sum((1, 2, 3)).float().view(-1, 1, 1, 1) % torch.tensor(
        [7.0, 5.0, 3.0, 2.0]
    ).view(1, 4, 1, 1)


def blend(image, window, overlap, logits=by_mean, batch_size=1):
    def read(top, left, height, width):
        assert 0 <= top <= top + height <= image.shape[1]
        assert 0 <= left <= left + width <= image.shape[2]
        return image[:, top : top + height, left : left + width]

    strips = list(blend_windows(read, *image.shape[1:], window, overlap, logits, batch_size))
    assert [first for first, _ in strips] == np.cumsum([0, *(rows.shape[1] for _, rows in strips)])[:-1].tolist()
    return torch.cat([rows for _, rows in strips], 1)


def random_image(height, width):
    return torch.randint(0, 256, (3, height, width), dtype=torch.uint8)


sizes = st.integers(1, 40)


@given(st.integers(1, 3000), st.integers(1, 300), st.data())
def test_windows_cover_the_image_overlap_enough_and_are_symmetric(length, window, data):
    overlap = data.draw(st.integers(0, window - 1))
    starts = window_starts(length, window, overlap)
    assert starts == sorted(set(starts))
    assert starts == sorted(length - window - start for start in starts)
    if length < window:
        assert len(starts) == 1 + (window - length) % 2
        assert all(start <= 0 and start + window >= length for start in starts)
    else:
        assert starts[0] == 0
        assert starts[-1] == length - window
        assert all(b - a <= window - overlap for a, b in pairwise(starts))
        assert len(starts) <= -(-(length - window) // (window - overlap)) + 2, "no more windows than needed"


@pytest.mark.parametrize("overlap", [-1, 8, 9])
def test_impossible_overlaps_are_refused(overlap):
    with pytest.raises(ValueError, match="less than the window, 8 pixels"):
        window_starts(20, 8, overlap)


@pytest.mark.parametrize("window", [1, 2, 7, 64, 513])
def test_weights_are_positive_symmetric_and_smooth(window):
    profile = weight_profile(window)
    assert profile.shape == (window,)
    assert (profile > 0).all()
    assert (profile == profile[::-1]).all()
    assert profile.max() == profile[window // 2]
    assert np.abs(np.diff(profile)).max(initial=0) <= np.pi / window + 1 / 2048
    weights = np.outer(profile, profile)
    for same in (weights.T, weights[::-1], np.rot90(weights)):
        assert (weights == same).all()


def test_weights_grow_from_the_border_to_the_center():
    profile = weight_profile(64)
    assert profile[0] == 1 / 32
    assert profile[31] > 0.99
    assert (np.diff(profile[:32]) >= 0).all()


def test_one_window_is_the_plain_network():
    image = random_image(32, 32)
    assert torch.equal(blend(image, 32, 8), torch.from_numpy(softmax(by_mean(image[None])[0])))


def test_softmax_is_that_of_torch():
    logits = torch.randn(5, 9, 7) * 10
    torch.testing.assert_close(torch.from_numpy(softmax(logits)), logits.softmax(0))


@settings(max_examples=20)
@given(sizes, sizes, st.integers(4, 24), st.data())
def test_windows_that_agree_give_the_probabilities_of_the_network(height, width, window, data):
    image = random_image(height, width)
    blended = blend(image, window, data.draw(st.integers(0, window - 4)), pointwise, 64)
    torch.testing.assert_close(blended, pointwise(image[None])[0].softmax(0), rtol=0, atol=1e-5)


@settings(max_examples=20)
@given(sizes, sizes, st.integers(4, 24), st.data())
def test_turned_and_flipped_images_give_turned_bits(height, width, window, data):
    image = random_image(height, width)
    overlap = data.draw(st.integers(0, window - 4))
    blended = blend(image, window, overlap)
    for quarters in range(4):
        turned = blend(image.rot90(quarters, (1, 2)), window, overlap)
        assert torch.equal(turned, blended.rot90(quarters, (1, 2))), quarters
    assert torch.equal(blend(image.flip(2), window, overlap), blended.flip(2))


@pytest.mark.parametrize(("height", "width"), [(50, 71), (9, 40), (7, 7)])
def test_the_batch_size_does_not_matter(height, width):
    image = random_image(height, width)
    one_by_one = blend(image, 16, 5)
    for batch_size in (2, 3, 7, 1000):
        assert torch.equal(blend(image, 16, 5, batch_size=batch_size), one_by_one), batch_size


def test_windows_are_averaged_by_weight():
    """Two windows of 8 pixels, at 0 and 4, that say A and B with certainty."""
    image = torch.zeros(3, 8, 12, dtype=torch.uint8)
    answers = iter([[0.0, -1000.0], [-1000.0, 0.0]])
    blended = blend(image, 8, 4, lambda images: torch.tensor(next(answers)).view(1, 2, 1, 1).expand(1, 2, 8, 8))
    profile = torch.from_numpy(weight_profile(8))
    first, second = torch.zeros(12), torch.zeros(12)
    first[:8], second[4:] = profile, profile
    torch.testing.assert_close(blended[0], (first / (first + second)).expand(8, 12), rtol=0, atol=1e-6)
    torch.testing.assert_close(blended.sum(0), torch.ones(8, 12), rtol=0, atol=1e-6)


def test_many_overlapping_windows_do_not_overflow():
    blended = blend(random_image(40, 40), 32, 31, batch_size=16)
    torch.testing.assert_close(blended.sum(0), torch.ones(40, 40), rtol=0, atol=1e-4)


def test_only_a_strip_of_windows_is_read_ahead():
    """A row of windows is finished before the next but one is read."""
    image, highest = random_image(400, 32), 0

    def read(top, left, height, width):
        nonlocal highest
        highest = max(highest, top + height)
        return image[:, top : top + height, left : left + width]

    for first, rows in blend_windows(read, 400, 32, 16, 4, pointwise, 1):
        assert highest <= first + rows.shape[1] + 2 * 16


def test_logits_of_another_size_are_refused():
    with pytest.raises(ValueError, match=r"expected logits \(1, classes, 16, 16\) of the network, got \(1, 4, 8, 8\)"):
        blend(random_image(20, 20), 16, 4, lambda images: pointwise(images)[..., ::2, ::2])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_are_refused(value):
    with pytest.raises(FloatingPointError, match="not finite"):
        blend(random_image(20, 20), 16, 4, lambda images: torch.full_like(pointwise(images), value))
