"""The effective receptive field: how much each pixel changes the feature in the middle of the last map."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.utils.progress import Progress, no_progress

SHARES = (0.2, 0.5, 0.99)


@dataclass(frozen=True, eq=False)
class ReceptiveField:
    """`contributions` are mean absolute gradients, relative to the largest. `areas` are the smallest shares of the area
    that hold 20, 50 and 99 % of their sum."""

    contributions: Float[np.ndarray, "H W"]
    areas: tuple[float, ...]


def measure_receptive_field(
    model: nn.Module, images: Float[Tensor, "b 3 H W"], progress: Progress = no_progress
) -> ReceptiveField:
    """Differentiate the central feature of `model.forward_features`, summed over channels, by the pixels.

    The mean over images of the absolute gradient, summed over colors (Luo et al. 2016). The central cell is the mean of
    the two or four middle ones where the grid has an even number of rows or columns.
    """
    was_training = model.training
    model.eval()
    total = torch.zeros(images.shape[-2:])
    try:
        for image in progress(images.split(1), "receptive field", len(images)):
            pixels = image.clone().requires_grad_()
            maps: Tensor = model.forward_features(pixels)  # pyright: ignore[reportCallIssue]
            (gradient,) = torch.autograd.grad(_middle(maps).sum(), pixels)
            total += gradient[0].abs().sum(0).cpu()
    finally:
        model.train(was_training)
    return ReceptiveField((total / total.max().clamp_min(1e-30)).numpy(), tuple(area_with(total, p) for p in SHARES))


def area_with(contributions: Float[Tensor, "H W"], share: float) -> float:
    """The smallest share of the area that holds this share of the sum.

    >>> area_with(torch.tensor([[6.0, 2.0], [1.0, 1.0]]), 0.6)
    0.25
    """
    ordered = contributions.double().flatten().sort(descending=True).values.cumsum(0)
    return (int((ordered < share * ordered[-1] * (1 - 1e-12)).sum()) + 1) / len(ordered)


def _middle(maps: Float[Tensor, "1 c h w"]) -> Tensor:
    height, width = maps.shape[-2:]
    rows, columns = (slice((side - 1) // 2, side // 2 + 1) for side in (height, width))
    return maps[..., rows, columns].mean((-2, -1))
