"""A segmentation network: a backbone of this package or of timm, and a decoder of segmentation_models_pytorch."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.layers.stems import pad_to_patches
from spectral_vmamba.models._timm import without_warnings
from spectral_vmamba.models.decoder_config import DecoderConfig
from spectral_vmamba.models.framing import remove_frame
from spectral_vmamba.models.registry import find_family, is_spectral
from spectral_vmamba.models.stem_weights import MissingWeightsError, find_installed_weights
from spectral_vmamba.models.tokenizer import SpectralTokenizer
from spectral_vmamba.ops.turns import turn
from spectral_vmamba.segmentation.placement import place
from spectral_vmamba.utils.extras import require

_STRIDE = 32  # of the coarsest map: images are padded to multiples of it


class SegmentationModel(nn.Module):
    """From normalized images (b, 3, h, w) of any size to a score of every class for every pixel (b, classes, h, w).

    `network` is a model of segmentation_models_pytorch.
    """

    def __init__(self, network: nn.Module, config: DecoderConfig):
        super().__init__()
        self.network, self.config = network, config
        if config.frame == "upright" and (self.tokenizer is None or self.tokenizer.upright is None):
            raise ValueError(
                "the frame upright requires a backbone with a frozen pretrained stem, such as spectral_vmamba_lite; "
                "the frame moment works with every backbone"
            )

    @property
    def backbone(self) -> nn.Module:
        """The backbone, with the names of parameters that it has as a classifier."""
        features: Any = self.network.encoder.model  # pyright: ignore[reportAttributeAccessIssue]
        return getattr(features, "model", features)

    @property
    def tokenizer(self) -> SpectralTokenizer | None:
        tokenizer = getattr(self.backbone, "tokenizer", None)
        return tokenizer if isinstance(tokenizer, SpectralTokenizer) else None

    def forward(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b classes h w"]:
        tokenizer = self.tokenizer
        upright, stem = (None, None) if tokenizer is None else (tokenizer.upright, tokenizer.rfn.bare_features)
        placed, placement = place(images, self.config.frame, upright, stem)
        return placement.undo(self._average_turns(placed) if self.config.turns == 4 else self._scores(placed))

    def _average_turns(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b classes h w"]:
        scores = [turn(self._scores(turn(images, quarters)), -quarters) for quarters in range(4)]
        # Added in the order of their values: without a frame, turns of an image come in another order.
        return torch.stack(scores).sort(dim=0).values.mean(0)

    def _scores(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b classes h w"]:
        height, width = images.shape[-2:]
        padded = pad_to_patches(_pad_to_side(images, self.config.smallest_side), _STRIDE)
        scores = self.network(padded)
        top, left = (padded.shape[-2] - height) // 2, (padded.shape[-1] - width) // 2
        return scores[..., top : top + height, left : left + width]


def _pad_to_side(images: Float[Tensor, "b c h w"], side: int) -> Float[Tensor, "b c h2 w2"]:
    """Zero-pad evenly on both sides; an odd pixel is added on the right and below, as `pad_to_patches` does."""
    height, width = images.shape[-2:]
    rows, columns = max(side - height, 0), max(side - width, 0)
    return F.pad(images, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))


def build_segmenter(
    backbone: str, backbone_options: dict[str, Any], config: DecoderConfig, classes: int, pretrained: bool = False
) -> SegmentationModel:
    """Create a segmentation network from the choices that its checkpoint has."""
    smp = require("segmentation_models_pytorch", "segment")
    options, own = dict(backbone_options), find_family(backbone) is not None
    if "frame" in options:
        raise ValueError("expected the frame of the whole network, frame=…, not among the options of the backbone")
    if own and pretrained:
        raise ValueError(f"there are no pretrained weights of {backbone}; start from a run with initial")
    if own:
        # The network's own frame would turn images a second time.
        options["frame"] = "upright" if config.frame == "upright" and is_spectral(backbone) else "none"
    elif pretrained:
        options["pretrained_cfg_overlay"] = {"state_dict": _require_weights(backbone)}
    weights = True if pretrained and not own else None
    keywords = {**config.decoder_options, **options}
    try:
        with without_warnings("timm.models._builder"):  # about the weights of layers that an encoder does not have
            network = smp.create_model(config.decoder, f"tu-{backbone}", weights, classes=classes, **keywords)
    except TypeError as error:
        given = ", ".join([*config.decoder_options, *backbone_options])
        raise ValueError(
            f"{config.decoder} with {backbone} does not take all of the options {given}: {error}"
        ) from error
    except ValueError as error:
        if "downsampling pattern" not in str(error):
            raise
        raise ValueError(
            f"{backbone} has no feature maps of strides 4, 8, 16 and 32, which decoders need; choose a hierarchical "
            "network, such as spectral_vmamba_lite, vmamba_tiny, resnet18 or convnext_tiny"
        ) from error
    if options.get("frame") == "upright":
        remove_frame(network.encoder.model.model)
    return SegmentationModel(network, config)


def _require_weights(backbone: str) -> dict[str, Tensor]:
    weights = find_installed_weights(backbone)
    if weights is None:
        raise MissingWeightsError(
            f"no pretrained weights of {backbone} are installed or cached on this machine, and none are downloaded; "
            "put them into the hub cache with timm.create_model(…, pretrained=True), or train without --pretrained"
        )
    return weights
