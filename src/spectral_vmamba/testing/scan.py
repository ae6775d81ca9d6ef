"""Set the weights of S6 mixers so that a wrong visiting order shows."""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import nn


def activate_scan(model: nn.Module, x_proj_scale: float = 8.0) -> nn.Module:
    """Make every S6 mixer of the model mix tokens strongly, in place, and return the model.

    Sets the bias of Δ to 0, so that Δ is near softplus(0), and scales the input projections. At Mamba's initial weights
    Δ is so small that tokens hardly influence each other, and tests would not notice a wrong order.
    """
    with torch.no_grad():
        for module in cast(Iterable[Any], model.modules()):
            if hasattr(module, "dt_bias") and hasattr(module, "x_proj"):
                module.dt_bias.zero_()
                module.x_proj.mul_(x_proj_scale)
    return model
