"""The canonical frame of a network: every family enters it here, before its first layer."""

from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.models.network_config import NetworkConfig
from spectral_vmamba.ops.frames import Frame, canonical_frame

Network = TypeVar("Network", bound=Any)


def enter_frame(
    images: Float[Tensor, "b c H W"], config: NetworkConfig
) -> tuple[Float[Tensor, "b c H2 W2"], Frame | None]:
    """Turn the images into their canonical frame, if the network has one. `Frame.undo` turns maps back."""
    return canonical_frame(images) if config.canonical_frame else (images, None)


def without_frame(network: Network) -> Network:
    """Return the same network, with shared weights, that takes images as they are.

    Quarter turns of an image then reach its layers: what its layers promise by themselves can be measured.
    """
    clone = copy(network)
    clone._modules = dict(network._modules)
    clone.config = replace(network.config, canonical_frame=False)
    if "tokenizer" in clone._modules:
        clone.tokenizer = copy(network.tokenizer)
        clone.tokenizer.config = clone.config
    return clone
