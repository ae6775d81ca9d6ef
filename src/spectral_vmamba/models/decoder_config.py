"""The choices that make a segmentation network of a backbone."""

import re
from dataclasses import dataclass, field
from typing import Any

from spectral_vmamba.ops.frames import FRAMES, Frame
from spectral_vmamba.utils.wording import closest

DECODERS = (
    "unet",
    "unetplusplus",
    "manet",
    "linknet",
    "fpn",
    "pspnet",
    "deeplabv3",
    "deeplabv3plus",
    "pan",
    "upernet",
    "segformer",
)
_POOLING = ("deeplabv3", "deeplabv3plus", "pan", "upernet")  # normalize one pooled value per channel and image
_SMALLEST_SIDES = {"pan": 128}  # of the images, in pixels; smaller ones have no cells left to pool
_OPTION = re.compile(r"decoder_\w+|encoder_depth|encoder_output_stride|upsampling|psp_\w+", re.ASCII)


@dataclass(frozen=True)
class DecoderConfig:
    """The choices of a segmentation network besides its backbone.

    >>> DecoderConfig("fpn").frame
    'quarter'
    """

    decoder: str = "upernet"
    decoder_options: dict[str, Any] = field(default_factory=dict)
    frame: Frame = "quarter"
    turns: int = 1

    def __post_init__(self):
        if self.decoder not in DECODERS:
            meant = closest(self.decoder, DECODERS)
            suggestion = f"; did you mean {meant}?" if meant else ""
            raise ValueError(f"expected a decoder of {', '.join(DECODERS)}; got {self.decoder[:60]!r}{suggestion}")
        unknown = next((name for name in self.decoder_options if not _OPTION.fullmatch(name)), None)
        if unknown is not None:
            raise ValueError(
                f"expected decoder options such as decoder_channels, encoder_depth or upsampling, got {unknown[:60]!r}"
            )
        if self.frame not in FRAMES:
            raise ValueError(f"expected frame to be one of {', '.join(FRAMES)}; got {str(self.frame)[:60]!r}")
        if self.turns not in (1, 4):
            raise ValueError(f"expected 1 or 4 turns, got {self.turns}")

    @property
    def smallest_batch(self) -> int:
        """Images that a training step needs, at least."""
        return 2 if self.decoder in _POOLING else 1

    @property
    def smallest_side(self) -> int:
        """Pixels per side of the smallest image that the decoder takes."""
        return _SMALLEST_SIDES.get(self.decoder, 1)
