"""Models, photographs and passes that several sections time."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.data import normalize, photograph_crops, resize
from spectral_vmamba.models import create_model, is_spectral

OUR_MODEL, PEER_MODEL = "spectral_vmamba_tiny", "swin_tiny_patch4_window7_224"


def photograph_batch(batch: int, pixels: int, seed: int) -> Float[Tensor, "b 3 H W"]:
    """Return normalized photographs. Noise would not do: the work of the eigensolver depends on the image."""
    crops = photograph_crops(batch, 224, seed)
    images = crops.float() if pixels == 224 else resize(crops, pixels)
    return normalize(images, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def seeded_model(name: str, seed: int, **options: Any) -> nn.Module:
    """Create a model with random weights and 100 classes, in eval mode."""
    torch.manual_seed(seed)
    if is_spectral(name):
        options = {"stem_weights": None, **options}
    return create_model(name, num_classes=100, **options).eval()


def model_call(model: nn.Module, images: Tensor, direction: str) -> Callable[[], list[Tensor]]:
    """Return the call to time: a forward that returns the logits, or a forward and backward in training mode."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def forward() -> list[Tensor]:
        with torch.no_grad():
            return [model(images)]

    def forward_backward() -> list[Tensor]:
        torch.autograd.grad(model.train()(images).sum(), parameters, allow_unused=True)
        return []

    return forward if direction == "forward" else forward_backward
