"""The canonical frame of tensors and of decoded images."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.ops.frames import canonical_frame, canonical_turn
from spectral_vmamba.ops.turns import turn

SIZES = [(8, 8), (7, 7), (6, 10), (9, 4), (1, 5), (1, 1)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_all_quarter_turns_have_the_same_canonical_bits(size):
    images = torch.randn(5, 3, *size)
    canonical, _ = canonical_frame(images)
    for quarters in range(4):
        assert torch.equal(canonical_frame(turn(images, quarters))[0], canonical)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_undo_restores_the_images(size):
    images = torch.randn(5, 3, *size)
    canonical, frame = canonical_frame(images)
    assert torch.equal(frame.undo(canonical), images)


def test_the_frame_does_not_depend_on_the_rest_of_the_batch():
    images = torch.stack([turn(torch.randn(3, 6, 6), i % 4) for i in range(8)])
    canonical, frame = canonical_frame(images)
    for i in range(8):
        single, own = canonical_frame(images[i : i + 1])
        assert torch.equal(single[0], canonical[i])
        assert own.own[0] == frame.own[i]


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**16), side=st.integers(1, 4), levels=st.integers(1, 2))
def test_symmetric_and_flat_images(seed, side, levels):
    """Few pixels of one or two values: many of these images equal some of their own turns."""
    image = torch.randint(0, levels, (1, 1, side, side), generator=torch.Generator().manual_seed(seed)).float()
    canonical = canonical_frame(image)[0]
    for quarters in range(4):
        assert torch.equal(canonical_frame(turn(image, quarters))[0], canonical)


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


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**16), height=st.integers(1, 4), width=st.integers(1, 4), quarters=st.integers(0, 3))
def test_all_quarter_turns_of_a_decoded_image_become_the_same(seed, height, width, quarters):
    pixels = np.random.default_rng(seed).integers(0, 3, (height, width, 3), dtype=np.uint8)
    turned = np.ascontiguousarray(np.rot90(pixels, quarters))
    assert np.array_equal(canonical_turn(pixels)[0], canonical_turn(turned)[0])
