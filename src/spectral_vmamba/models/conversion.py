"""Convert checkpoints that other code released: rename keys by rules and reshape tensors."""

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from torch import Tensor, nn

# A pattern that matches a whole key, and its replacement as `re.sub` takes it.
Rule = tuple[str, str | Callable[[re.Match], str]]


def rename_keys(state: dict[str, Tensor], rules: Sequence[Rule], drop: str | None = None) -> dict[str, Tensor]:
    """Rename each key by the first rule that matches all of it, and leave out the keys that `drop` matches.

    Keys that no rule matches keep their name.
    """
    renamed = {}
    for key, tensor in state.items():
        if drop and re.fullmatch(drop, key):
            continue
        rule = next((rule for rule in rules if re.fullmatch(rule[0], key)), None)
        renamed[re.sub(f"^{rule[0]}$", rule[1], key) if rule else key] = tensor
    return renamed


def reshape_tensors(state: dict[str, Tensor], model: nn.Module, keys: str) -> dict[str, Tensor]:
    """Give the tensors whose keys match `keys` the shapes that they have in the model.

    Only layouts of the same numbers are converted: stacked parameter sets, and 1×1 convolutions that are linear layers
    here. A tensor of any other shape is returned unchanged, so that `load_state_dict` reports it.
    """
    expected = model.state_dict()
    return {
        key: tensor.reshape(expected[key].shape)
        if key in expected
        and re.fullmatch(keys, key)
        and _is_same_layout(tuple(tensor.shape), tuple(expected[key].shape))
        else tensor
        for key, tensor in state.items()
    }


def _is_same_layout(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two shapes differ only by axes of length 1 and by merged leading axes."""
    short, long = sorted((tuple(side for side in shape if side != 1) for shape in (one, other)), key=len)
    merged = len(long) - len(short) + 1
    return short == long or (bool(short) and short == (prod(long[:merged]), *long[merged:]))


def convert_before_loading(module: Any, state_dict: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Hook of `load_state_dict`: convert released checkpoints in place."""
    if prefix:  # the network is a submodule, and the state dict belongs to its parent
        return
    converted = module.convert_checkpoint(dict(state_dict))
    if converted.keys() != state_dict.keys() or any(converted[key] is not state_dict[key] for key in converted):
        state_dict.clear()
        state_dict.update(converted)


def convert_pretrained(state: dict[str, Tensor], model: Any) -> dict[str, Tensor]:
    """Convert the state dict for timm's `pretrained=True`, which then adapts the classifier and the first convolution.

    Raises a RuntimeError that lists missing and unexpected keys. timm itself ignores all of them when the number of
    classes differs from the checkpoint's; here only those of the classifier may differ.
    """
    state = model.convert_checkpoint(state)
    given, expected = ({key for key in keys if not key.startswith("head.")} for keys in (state, model.state_dict()))
    if given != expected:
        missing, unexpected = (", ".join(sorted(keys)) or "none" for keys in (expected - given, given - expected))
        raise RuntimeError(
            f"the checkpoint does not have the architecture of this {type(model).__name__}. "
            f"Missing keys: {missing}. Unexpected keys: {unexpected}."
        )
    return state
