"""Reading checkpoints that were written under other names: renaming rules and reshapes, as values."""

import re
from collections.abc import Callable, Sequence

from torch import Tensor, nn

Rule = tuple[str, str | Callable[[re.Match], str]]


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
    fits = {name for name in state if re.fullmatch(names, name) and name in own}
    return {
        name: tensor.reshape(own[name].shape) if name in fits and tensor.numel() == own[name].numel() else tensor
        for name, tensor in state.items()
    }


def read_foreign(model: nn.Module, convert: Callable[[dict[str, Tensor], nn.Module], dict[str, Tensor]]) -> None:
    """From now on `model.load_state_dict`, and with it timm's `checkpoint_path`, takes the foreign names as well."""

    def before_loading(module, state_dict, prefix, *_) -> None:
        if prefix:  # the model is a part of another one, whose names these are
            return
        converted = convert(dict(state_dict), module)
        if converted.keys() != state_dict.keys() or any(converted[k] is not state_dict[k] for k in converted):
            state_dict.clear()
            state_dict.update(converted)

    model.register_load_state_dict_pre_hook(before_loading)
