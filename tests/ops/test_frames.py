"""The canonical frame of tensors and of decoded images."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.ops.frames import canonical_turn, quarter_frame
from spectral_vmamba.ops.turns import turn

SIZES = [(8, 8), (7, 7), (6, 10), (9, 4), (1, 5), (1, 1)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_all_quarter_turns_have_the_same_canonical_bits(size):
    images = torch.randn(5, 3, *size)
    canonical, _ = quarter_frame(images)
    for quarters in range(4):
        assert torch.equal(quarter_frame(turn(images, quarters))[0], canonical)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_undo_restores_the_images(size):
    images = torch.randn(5, 3, *size)
    canonical, frame = quarter_frame(images)
    assert torch.equal(frame.undo(canonical), images)


def test_the_frame_does_not_depend_on_the_rest_of_the_batch():
    images = torch.stack([turn(torch.randn(3, 6, 6), i % 4) for i in range(8)])
    canonical, frame = quarter_frame(images)
    for i in range(8):
        single, own = quarter_frame(images[i : i + 1])
        assert torch.equal(single[0], canonical[i])
        assert own.own[0] == frame.own[i]


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**16), side=st.integers(1, 4), levels=st.integers(1, 2))
def test_symmetric_and_flat_images(seed, side, levels):
    """Few pixels of one or two values: many of these images equal some of their own turns."""
    image = torch.randint(0, levels, (1, 1, side, side), generator=torch.Generator().manual_seed(seed)).float()
    canonical = quarter_frame(image)[0]
    for quarters in range(4):
        assert torch.equal(quarter_frame(turn(image, quarters))[0], canonical)


def frame_by_definition(image):
    """Of one image (c, h, w): all four turns, those of the largest width, the largest values, the fewest quarters."""
    turns = [(turn(image, quarters), quarters) for quarters in range(4)]
    widest = max(candidate.shape[-1] for candidate, _ in turns)
    landscape = [(candidate, -quarters) for candidate, quarters in turns if candidate.shape[-1] == widest]
    canonical, minus_quarters = max(landscape, key=lambda pair: (pair[0].flatten().tolist(), pair[1]))
    return canonical, -minus_quarters


@settings(deadline=None, max_examples=100)
@given(
    seed=st.integers(0, 2**16), size=st.sampled_from(SIZES), levels=st.sampled_from([1, 2, 256]), early=st.booleans()
)
def test_the_frame_is_its_definition_ties_included(seed, size, levels, early):
    images = torch.randint(0, levels, (4, 2, *size), generator=torch.Generator().manual_seed(seed)).float()
    canonical, frame = quarter_frame(images, stop_early=early)
    for image, found, own in zip(images, canonical, frame.own.tolist(), strict=True):
        expected, quarters = frame_by_definition(image)
        assert torch.equal(found, expected)
        assert frame.common + own == quarters


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**16), side=st.integers(1, 9), channel=st.integers(0, 1))
def test_one_pixel_anywhere_decides_alike_early_and_late(seed, side, channel):
    """Images that equal their turns but for one pixel: in the first half, in the second, or in the second channel."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.zeros(6, 2, side, side)
    rows, columns = torch.randint(0, side, (2, 6), generator=generator)
    images[torch.arange(6), channel, rows, columns] = 1.0
    early, late = quarter_frame(images, stop_early=True), quarter_frame(images)
    assert torch.equal(early[0], late[0])
    assert torch.equal(early[1].own, late[1].own)


def definition(pixels):
    """All four turns, those of the largest width, the largest bytes, then the smallest number of quarters."""
    turns = [np.ascontiguousarray(np.rot90(pixels, quarters)) for quarters in range(4)]
    widest = max(candidate.shape[1] for candidate in turns)
    largest = max(candidate.tobytes() for candidate in turns if candidate.shape[1] == widest)
    return next(
        (candidate, quarters)
        for quarters, candidate in enumerate(turns)
        if candidate.shape[1] == widest and candidate.tobytes() == largest
    )


@settings(deadline=None, max_examples=200)
@given(
    seed=st.integers(0, 2**16),
    height=st.integers(1, 4),
    width=st.integers(1, 4),
    shape=st.sampled_from([(), (1,), (3,)]),
    levels=st.sampled_from([1, 2, 256]),
)
def test_canonical_turn_is_its_definition_ties_included(seed, height, width, shape, levels):
    pixels = np.random.default_rng(seed).integers(0, levels, (height, width, *shape), dtype=np.uint8)
    found, quarters = canonical_turn(pixels)
    expected, expected_quarters = definition(pixels)
    assert quarters == expected_quarters
    assert np.array_equal(found, expected)
    assert np.array_equal(np.rot90(pixels, quarters), found)


@settings(deadline=None, max_examples=100)
@given(seed=st.integers(0, 2**16), side=st.integers(5, 40), changed=st.integers(0, 2))
def test_images_that_differ_from_their_turns_by_a_few_pixels(seed, side, changed):
    """The comparison ends in any strip, or nowhere."""
    generator = np.random.default_rng(seed)
    pixels = generator.integers(0, 256, (side, side, 3), dtype=np.uint8)
    pixels = np.max([np.rot90(pixels, quarters) for quarters in range(4)], axis=0)
    pixels[tuple(generator.integers(0, side, (2, changed)))] += 1
    found, quarters = canonical_turn(pixels)
    expected, expected_quarters = definition(pixels)
    assert quarters == expected_quarters
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("size", "blank"), [((4000, 6000), False), ((6000, 4000), False), ((6000, 4000), True), ((4000, 6000), True)]
)
def test_the_turn_of_a_large_image_takes_one_copy_at_most(size, blank):
    pixels = np.zeros((*size, 3), dtype=np.uint8)
    if not blank:
        pixels[-1, -1] = 255
    tracemalloc.start()
    found, quarters = canonical_turn(pixels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # a strip has 2^18 pixels of 3 bytes; two of them, and copies of both, are compared at a time
    assert peak <= (found.nbytes if quarters else 0) + 6 * 3 * 2**18
    if blank:
        assert quarters == int(size[0] > size[1])


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**16), height=st.integers(1, 4), width=st.integers(1, 4), quarters=st.integers(0, 3))
def test_all_quarter_turns_of_a_decoded_image_become_the_same(seed, height, width, quarters):
    pixels = np.random.default_rng(seed).integers(0, 3, (height, width, 3), dtype=np.uint8)
    turned = np.ascontiguousarray(np.rot90(pixels, quarters))
    assert np.array_equal(canonical_turn(pixels)[0], canonical_turn(turned)[0])
