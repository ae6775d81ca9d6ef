"""Count the parameters and floating-point operations of a model, on shapes alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from spectral_vmamba.metrics.author_rules import local_mamba_rule
from spectral_vmamba.models import SpectralVMamba, create_model, is_spectral
from spectral_vmamba.models.isotropic import IsotropicBackbone


@dataclass(frozen=True)
class ModelCost:
    """Parameters and operations of a model at one input size.

    `gflops` counts all layers as they run: every direction, every pass of the stem. STS is not counted.
    `gflops_authors` follows the rules of the model's authors (see `author_rules`). Both count multiply-adds of
    convolutions and matrix products, 5 per normalized element, 4 per bilinearly interpolated element and 9·l·d·n + l·d
    per scanned path.
    """

    name: str
    input_size: tuple[int, int]
    trainable_parameters: int
    frozen_parameters: int
    gflops: float
    gflops_authors: float


def measure_cost(name: str, size: int | tuple[int, int] | None = None, num_classes: int = 100, **kwargs) -> ModelCost:
    """Build the model on the meta device (no memory for its weights) and count one image.

    `size` is the side of the image or (height, width); it defaults to the input size of the model.
    """
    if is_spectral(name):
        kwargs.setdefault("stem_weights", None)
    with torch.device("meta"):
        model = create_model(name, num_classes=num_classes, **kwargs).eval()
    channels, *native = model.pretrained_cfg["input_size"]
    height, width = native if size is None else (size, size) if isinstance(size, int) else size
    with (
        FlopCounterMode(display=False, custom_mapping=_EXTRA_RULES) as counter,
        _rms_norms(model) as elements,
        torch.no_grad(),
    ):
        model(torch.empty(1, channels, height, width, device="meta"))
    total = counter.get_total_flops() + 2 * 5 * sum(elements)
    return ModelCost(
        name,
        (height, width),
        _count(model, trainable=True),
        _count(model, trainable=False),
        total / 2e9,
        _authors_count(model, counter, total, height, width) / 2e9,
    )


@contextmanager
def _rms_norms(model: nn.Module) -> Iterator[list[int]]:
    """Collect the element counts of every RMSNorm that runs: the FLOP counter does not see them as norms."""
    elements: list[int] = []
    norms = [module for module in model.modules() if isinstance(module, nn.RMSNorm)]
    hooks = [norm.register_forward_hook(lambda _, inputs, output: elements.append(output.numel())) for norm in norms]
    try:
        yield elements
    finally:
        for hook in hooks:
            hook.remove()


def _authors_count(model: nn.Module, counter: FlopCounterMode, total: int, height: int, width: int) -> int:
    if isinstance(model, SpectralVMamba):
        stem = sum(counter.get_flop_counts()["SpectralVMamba.tokenizer.rfn.stem"].values())
        return total - stem * (model.tokenizer.rfn.passes - 1) // model.tokenizer.rfn.passes
    if isinstance(model, IsotropicBackbone):
        return 2 * local_mamba_rule(model, height, width)
    return total


def _count(model: nn.Module, trainable: bool) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad is trainable)


def _layer_norm_flops(shape, *_, **__) -> int:
    return 2 * 5 * prod(shape)


def _bilinear_flops(*_, out_shape, **__) -> int:
    return 2 * 4 * prod(out_shape)


_EXTRA_RULES = {
    torch.ops.aten.native_layer_norm: _layer_norm_flops,
    torch.ops.aten.upsample_bilinear2d: _bilinear_flops,
}
