"""The end of every network, and the part of timm's contract that does not care how tokens are made."""

from torch import nn

_UNDECAYED = ("A_log", ".D", "dt_bias")


class Classifier(nn.Module):
    num_features: int
    pools: tuple[str, ...] = ("avg", "max", "")
    undecayed: tuple[str, ...] = ()  # parameters without weight decay, by the ends of their names, beside the scan's

    def __init__(self, in_chans: int):
        super().__init__()
        if in_chans < 1:
            raise ValueError(f"expected in_chans ≥ 1, got {in_chans}")
        self.in_chans = in_chans

    def get_classifier(self) -> nn.Module:
        return self.head

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        if global_pool is not None:
            if global_pool not in self.pools:
                names = ", ".join(repr(name) for name in self.pools if name)
                raise ValueError(f"expected global_pool {names}, or '' for none, got {global_pool!r}")
            self.global_pool = global_pool
        if num_classes < 0:
            raise ValueError(f"expected num_classes ≥ 1, or 0 for no classifier at all, got {num_classes}")
        self.num_classes = num_classes
        self.head = nn.Linear(self.num_features, num_classes) if num_classes > 0 else nn.Identity()
        init_linear(self.head)

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        self.grad_checkpointing = enable

    def no_weight_decay(self) -> set[str]:
        return {name for name, _ in self.named_parameters() if name.endswith((*_UNDECAYED, *self.undecayed))}


def init_linear(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
