"""Sequences of patches with a class token in the middle, and their position tables."""

import pytest
import torch

from spectral_vmamba.models.positions import (
    fit_positions,
    insert_class_token,
    resample_positions,
    split_class_token,
)


@pytest.mark.parametrize("patches", [1, 4, 15])
def test_class_tokens_are_inserted_in_the_middle_and_split_again(patches):
    class_token, x = torch.full((2, 1, 3), -1.0), torch.randn(2, patches, 3)
    sequence = insert_class_token(class_token, x)
    assert torch.equal(sequence[:, patches // 2], class_token[:, 0])
    for actual, expected in zip(split_class_token(sequence, True), (class_token, x), strict=True):
        assert torch.equal(actual, expected)
    none, everything = split_class_token(x, False)
    assert none.shape == (2, 0, 3)
    assert everything is x


def test_resampling_keeps_the_position_of_the_class_token():
    table = torch.full((1, 16, 16), 2.0)
    table[:, 7] = 5.0
    positions = resample_positions(table, True, (3, 5), (4, 6))
    assert positions.shape == (1, 25, 16)
    torch.testing.assert_close(positions[:, 12], torch.full((1, 16), 5.0))
    torch.testing.assert_close(positions[:, :12], torch.full((1, 12, 16), 2.0))
    torch.testing.assert_close(positions[:, 13:], torch.full((1, 12, 16), 2.0))


def test_tables_of_square_grids_are_fitted():
    """A table that counts the rows still does, and does not count the columns."""
    rows = torch.arange(8.0)[:, None].expand(8, 8).reshape(1, 64, 1)
    table = fit_positions(rows, False, (16, 8)).reshape(16, 8)
    expected = (torch.arange(16.0) + 0.5) / 2 - 0.5
    assert torch.equal(table, table[:, :1].expand(16, 8))
    # Away from the border. Measured: 0.047, because torch's bicubic kernel does not preserve straight lines.
    assert (table[4:12, 0] - expected[4:12]).abs().max() < 0.1


def test_other_tables_are_returned_unchanged():
    table = torch.randn(1, 15, 4)
    assert fit_positions(table, False, (3, 5)) is table, "it fits already"
    assert fit_positions(table, False, (4, 4)) is table, "15 is not a square number"
    assert fit_positions(torch.randn(1, 17, 4), True, (3, 5)).shape == (1, 16, 4), "4 × 4 and a class token"
