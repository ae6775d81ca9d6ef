"""Base class of every network: the classification head and the part of timm's contract that does not depend on the
layers before it."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from spectral_vmamba.models.conversion import convert_before_loading
from spectral_vmamba.models.framing import Posed
from spectral_vmamba.models.network_config import NetworkConfig
from spectral_vmamba.ops.frames import pool_over_turns

_SCAN_PARAMETERS = ("A_log", ".D", "dt_bias")


class Classifier(nn.Module):
    """A network that ends in norm, pooling and a linear classifier.

    `num_classes`, `in_chans`, `global_pool`, `drop_rate` and `drop_path_rate` mean what they mean in timm;
    `architecture` holds the fields of `config_class`. Weights are drawn in this order: `build_layers`, the head,
    `reset_parameters`. Changing it changes the weights that a seed gives.
    """

    config_class: type[NetworkConfig]
    config: Any  # an instance of `config_class`
    pretrained_cfg: dict[str, Any]  # set by timm
    num_features: int
    pools: tuple[str, ...] = ("avg", "max", "")  # valid values of `global_pool`; the first is the default
    no_decay_suffixes: tuple[str, ...] = ()  # parameters without weight decay, besides those of the scans

    def __init__(
        self,
        *,
        num_classes: int = 1000,
        in_chans: int = 3,
        global_pool: str | None = None,
        drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        **architecture: Any,
    ):
        super().__init__()
        if in_chans < 1:
            raise ValueError(f"expected in_chans ≥ 1, got {in_chans}")
        self.in_chans = in_chans
        self.config = self.config_class.from_keywords(**architecture)
        self.grad_checkpointing = False
        self.build_layers(drop_path_rate)
        self.head_drop = nn.Dropout(drop_rate)
        self.reset_classifier(num_classes, self.pools[0] if global_pool is None else global_pool)
        self.reset_parameters()
        self.register_load_state_dict_pre_hook(convert_before_loading)

    @classmethod
    def cfg_entries(cls, config: Any, size: tuple[int, int]) -> dict[str, Any]:
        """Return the entries of timm's pretrained configuration that depend on the options of the architecture.

        `size` is the height and width of the images. `first_conv` is the module that sees the pixels: timm adapts its
        weights to other numbers of channels.
        """
        raise NotImplementedError

    def build_layers(self, drop_path_rate: float) -> None:
        """Create every layer up to and including `norm`, and set `num_features`."""
        raise NotImplementedError

    def reset_parameters(self) -> None:
        """Replace torch's initial weights where the published code has others."""

    def convert_checkpoint(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return a released state dict under the names and shapes of this network.

        Names of this network are left unchanged. `load_state_dict` and timm's `pretrained` and `checkpoint_path` call
        this method.
        """
        return state

    def forward(self, inputs: Any) -> Tensor:
        """Return the logits of images, or of what else the network takes."""
        return self.head(self.forward_pooled(inputs)) if self._pools_turns(inputs) else self.forward_once(inputs)

    def forward_pooled(self, inputs: Any) -> Tensor:
        """Return the input of the classifier: the pooled features, pooled once more over turned copies with `turns`."""
        if not self._pools_turns(inputs):
            return self.forward_once(inputs, pre_logits=True)
        # Copies are turned after the frame, which would turn them back.
        images, _ = self.enter_frame(inputs)
        return pool_over_turns(
            lambda copies: self.forward_once(Posed(copies, None), pre_logits=True),
            images,
            self.config.copies,
            self.config.turn_pool,
        )

    def forward_once(self, inputs: Any, pre_logits: bool = False) -> Tensor:
        """Return the logits, or the input of the classifier, of each image as it is.

        Pooled outputs do not need the original orientation. Without turning back, they are the same bits for every
        quarter turn.
        """
        raise NotImplementedError

    def enter_frame(self, images: Any) -> Posed:
        """Return the images in the frame of the network."""
        raise NotImplementedError

    def _pools_turns(self, inputs: Any) -> bool:
        return self.config.copies > 1 and bool(self.global_pool) and isinstance(inputs, (Tensor, Posed))

    def forward_head(self, features: Any, pre_logits: bool = False) -> Tensor:
        """Pool what `forward_features` returned and classify it, or return the pooled features if `pre_logits`."""
        x = self.head_drop(self.pool(features))
        return x if pre_logits else self.head(x)

    def pool(self, features: Any) -> Tensor:
        """Pool over the tokens of `features` according to `global_pool`."""
        raise NotImplementedError

    def get_classifier(self) -> nn.Module:
        return self.head

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """Replace the linear classifier; 0 classes means none. Keeps the pooling if `global_pool` is None."""
        if global_pool is not None:
            if global_pool not in self.pools:
                names = ", ".join(repr(name) for name in self.pools if name)
                raise ValueError(f"expected global_pool {names}, or '' for no pooling, got {global_pool!r}")
            self.global_pool = global_pool
        if num_classes < 0:
            raise ValueError(f"expected num_classes ≥ 1, or 0 for no classifier, got {num_classes}")
        self.num_classes = num_classes
        self.head = nn.Linear(self.num_features, num_classes) if num_classes > 0 else nn.Identity()
        init_linear(self.head)

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        self.grad_checkpointing = enable

    def no_weight_decay(self) -> set[str]:
        """Names of the parameters that take no weight decay."""
        suffixes = (*_SCAN_PARAMETERS, *self.no_decay_suffixes)
        return {name for name, _ in self.named_parameters() if name.endswith(suffixes)}


def init_linear(module: nn.Module) -> None:
    """Initialize a linear layer as VMamba does: truncated normal weights of std 0.02, no bias. Other modules are left
    unchanged."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def pool_tokens(x: Float[Tensor, "b l c"], how: str, counted: Bool[Tensor, "b l 1"] | None = None) -> Tensor:
    """Return the mean ("avg") or maximum ("max") over the tokens.

    Tokens that are not `counted`, which must be zero, are left out.
    """
    if how == "avg":
        return x.mean(1) if counted is None else x.sum(1) / counted.sum(1)
    return (x if counted is None else x.masked_fill(~counted, -torch.inf)).amax(1)
