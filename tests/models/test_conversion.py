"""Rename keys and reshape tensors of checkpoints."""

import pytest
import torch

from spectral_vmamba.models import VMamba, conversion


def test_keys_are_renamed_by_the_first_rule_that_matches_all_of_them():
    state = {key: torch.zeros(()) for key in ("a.1.x", "a.1.x.y", "b", "c", "a.1.z")}
    rules = [(r"a\.(\d)\.x", lambda m: f"new.{int(m[1]) + 1}"), (r"a\.(\d)\.(.*)", r"old.\1.\2")]
    renamed = conversion.rename_keys(state, rules, drop="c|.*z")
    assert list(renamed) == ["new.2", "old.1.x.y", "b"]
    assert renamed["b"] is state["b"]


@pytest.mark.parametrize(
    ("shape", "expected", "same"),
    [
        ((8, 1), (8,), True),
        ((8, 4, 1, 1), (8, 4), True),
        ((8, 4), (1, 8, 4), True),
        ((8, 4), (2, 4, 4), True),
        ((64, 1), (4, 16, 1), True),
        ((64,), (4, 16), True),
        ((4, 8), (8, 4), False),
        ((4, 8), (32,), True),
        ((8, 4), (4, 2, 4, 1), True),
        ((4, 2, 4), (4, 8), False),
        ((2, 16), (8, 4), False),
        ((8, 5), (8, 4), False),
    ],
)
def test_only_layouts_of_the_same_numbers_are_reshaped(shape, expected, same):
    assert conversion._is_same_layout(shape, expected) is same
    assert conversion._is_same_layout(expected, shape) is same


def test_transposed_weights_are_refused():
    model = VMamba(num_classes=2, widths=(16, 32), depths=(1, 1))
    state = model.state_dict()
    name = "stages.0.blocks.0.mlp.0.weight"
    with pytest.raises(RuntimeError, match=f"size mismatch for {name}"):
        model.load_state_dict({**state, name: state[name].T.contiguous()})
