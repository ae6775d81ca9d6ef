"""Reading checkpoints that were written under other names: renaming rules and reshapes, as values."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from torch import Tensor, nn

Rule = tuple[str, str | Callable[[re.Match], str]]
Convert = Callable[[dict[str, Tensor], nn.Module], dict[str, Tensor]]


def renamed(state: dict[str, Tensor], rules: Sequence[Rule], dropped: str | None = None) -> dict[str, Tensor]:
    """Every name by the first rule whose pattern it matches in full; names that `dropped` matches are left out."""
    result = {}
    for name, tensor in state.items():
        if dropped and re.fullmatch(dropped, name):
            continue
        rule = next(((pattern, new) for pattern, new in rules if re.fullmatch(pattern, name)), None)
        result[re.sub(f"^{rule[0]}$", rule[1], name) if rule else name] = tensor
    return result


def reshaped(state: dict[str, Tensor], model: nn.Module, names: str) -> dict[str, Tensor]:
    """Tensors whose names match, in the shapes the model has them in, where that is the same numbers otherwise laid out
    (stacked parameter sets, 1×1 convolutions that are linear layers)."""
    own = model.state_dict()
    fits = {name for name in own.keys() & state.keys() if re.fullmatch(names, name)}
    return {
        name: tensor.reshape(own[name].shape)
        if name in fits and _same_numbers(tuple(tensor.shape), tuple(own[name].shape))
        else tensor
        for name, tensor in state.items()
    }


def _same_numbers(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two shapes differ by axes of length 1 and by the merging of leading axes alone."""
    short, long = sorted((tuple(side for side in shape if side != 1) for shape in (one, other)), key=len)
    merged = len(long) - len(short) + 1
    return short == long or (bool(short) and short == (prod(long[:merged]), *long[merged:]))


def read_foreign(model: nn.Module, convert: Convert) -> None:
    """From now on `model.load_state_dict`, and with it timm's `checkpoint_path`, takes the foreign names as well."""
    model.register_load_state_dict_pre_hook(partial(_before_loading, convert))


def _before_loading(convert: Convert, module: nn.Module, state_dict: dict[str, Tensor], prefix: str, *_) -> None:
    if prefix:  # the model is a part of another one, whose names these are
        return
    converted = convert(dict(state_dict), module)
    if converted.keys() != state_dict.keys() or any(converted[k] is not state_dict[k] for k in converted):
        state_dict.clear()
        state_dict.update(converted)


def pretrained_state(convert: Convert, state: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The state for timm's `pretrained=True`, which then fits the classifier and the first convolution.

    For another number of classes timm forgives every name that is missing or unknown; here only the classifier's are.
    """
    state = convert(state, model)
    found, own = ({name for name in names if not name.startswith("head.")} for names in (state, model.state_dict()))
    if found != own:
        missing, unknown = (", ".join(sorted(names)) or "none" for names in (own - found, found - own))
        raise RuntimeError(
            f"a checkpoint of another architecture than this {type(model).__name__}. "
            f"Missing keys: {missing}. Unexpected keys: {unknown}."
        )
    return state
