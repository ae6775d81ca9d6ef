"""Create a segmentation network by the names of its parts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spectral_vmamba.inference.model_options import without_initial_weights
from spectral_vmamba.models.decoder_config import DecoderConfig
from spectral_vmamba.ops.frames import Frame
from spectral_vmamba.segmentation.initial_weights import load_initial_weights
from spectral_vmamba.segmentation.model import SegmentationModel, build_segmenter


def create_segmenter(
    backbone: str,
    decoder: str = "upernet",
    classes: int = 2,
    *,
    equivariant: bool = True,
    frame: Frame | None = None,
    turns: int = 1,
    backbone_options: Mapping[str, Any] | None = None,
    decoder_options: Mapping[str, Any] | None = None,
    pretrained: bool = False,
    initial: str | Path | None = None,
) -> SegmentationModel:
    """Create a segmentation network.

    `backbone` is a hierarchical model of this package or any encoder of timm. With `equivariant`, the mask of a
    quarter-turned image is the turned mask, to the last bit: the frame is "quarter", or another one if given. Without
    it, the frame is "none". `pretrained` loads weights of timm's backbones that are installed or cached; the frozen
    stem of spectral_vmamba_lite always has its own. `initial` is a run folder or a checkpoint to start from: of a
    segmentation network, or of a classifier with the same backbone. Requires the extra `segment`.

    >>> import spectral_vmamba
    >>> import torch
    >>> model = spectral_vmamba.create_segmenter("vmamba_nano", "fpn", classes=3)
    >>> model(torch.zeros(1, 3, 50, 70)).shape
    torch.Size([1, 3, 50, 70])
    """
    chosen: Frame = frame or ("quarter" if equivariant else "none")
    if equivariant and chosen == "none":
        raise ValueError("an equivariant network needs a frame: quarter, moment or upright; or pass equivariant=False")
    config = DecoderConfig(decoder, dict(decoder_options or {}), chosen, turns)
    options = dict(backbone_options or {})
    if initial is not None:
        options = without_initial_weights(backbone, options)
    model = build_segmenter(backbone, options, config, classes, pretrained and initial is None)
    if initial is not None:
        load_initial_weights(model, initial, classes)
    return model
