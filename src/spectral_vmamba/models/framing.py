"""The frame of a network: every family enters it here, before its first layer."""

from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.models.network_config import NetworkConfig
from spectral_vmamba.ops.frames import Pose, moment_frame, quarter_frame

Network = TypeVar("Network", bound=Any)


def enter_frame(
    images: Float[Tensor, "b c H W"], config: NetworkConfig
) -> tuple[Float[Tensor, "b c H2 W2"], Pose | None]:
    """Turn the images into the frame of the network, if it has one. `Pose.undo` turns maps back."""
    if config.frame == "none":
        return images, None
    return moment_frame(images) if config.frame == "moment" else quarter_frame(images)


def without_frame(network: Network) -> Network:
    """Return the same network, with shared weights, that takes images as they are.

    Turned images then reach its layers as they are: what its layers promise by themselves can be measured.
    """
    clone = copy(network)
    clone._modules = dict(network._modules)
    clone.config = replace(network.config, frame="none")
    if "tokenizer" in clone._modules:
        clone.tokenizer = copy(network.tokenizer)
        clone.tokenizer.config = clone.config
    return clone
