"""Dense ranks and their hash."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.ops.ranks import hash_ranks, tied_ranks


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12))
def test_equal_values_share_a_rank(values):
    levels = sorted(set(values))
    assert tied_ranks(torch.tensor(values)).tolist() == [levels.index(value) for value in values]


def test_values_within_the_tolerance_share_a_rank():
    values = torch.tensor([[0.0, 3.0, 1.0, 1.4], [5.0, 0.0, 0.3, 0.6]])
    assert tied_ranks(values, 0.5).tolist() == [[0, 2, 1, 1], [1, 0, 0, 0]]
    assert tied_ranks(values, torch.tensor([[2.0], [0.0]])).tolist() == [[0, 0, 0, 0], [3, 0, 1, 2]]


def test_sums_of_hashes_identify_multisets():
    ranks = hash_ranks(torch.arange(3000))
    assert ranks.min() >= 0
    assert ranks.max() < 2**20
    i, j = torch.triu_indices(60, 60)
    sums = ranks[i] + ranks[j]
    assert len(sums.unique()) == len(sums) == 1830, "sums of plain ranks take only 119 values"
