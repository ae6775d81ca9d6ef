"""The frame of a network: every family enters it here, before its first layer."""

from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.models.input_checks import check_images
from spectral_vmamba.ops.frames import Frame, Pose, moment_frame, quarter_frame

Network = TypeVar("Network", bound=Any)


class Posed(NamedTuple):
    """Images in the frame of a network, and the turn that brought them there, None without a frame."""

    images: Float[Tensor, "b c H W"]
    pose: Pose | None


def check_and_enter_frame(
    images: Float[Tensor, "b c H W"] | Posed, frame: Frame, in_chans: int, patch_size: int
) -> Posed:
    """Check images and turn them into a frame, unless they are in one already."""
    if isinstance(images, Posed):
        return images
    check_images(images, in_chans, patch_size)
    return enter_frame(images, frame)


def enter_frame(images: Float[Tensor, "b c H W"], frame: Frame) -> Posed:
    """Turn images into a frame. `Pose.undo` turns maps back."""
    if frame == "none":
        return Posed(images, None)
    return Posed(*(moment_frame(images) if frame == "moment" else quarter_frame(images)))


def without_frame(network: Network) -> Network:
    """Return the same network, with shared weights, that takes images as they are.

    Turned images then reach its layers as they are: what its layers promise by themselves can be measured.
    """
    clone = copy(network)
    clone._modules = dict(network._modules)
    if "tokenizer" in clone._modules:
        clone.tokenizer = copy(network.tokenizer)
    remove_frame(clone)
    return clone


def remove_frame(network: Any) -> None:
    """Make a network take images as they are, in place. A score of the frame upright stays in its tokenizer."""
    network.config = replace(network.config, frame="none")
    if "tokenizer" in network._modules:
        network.tokenizer.config = network.config
