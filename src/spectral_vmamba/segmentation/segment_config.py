"""All settings of the training of a segmentation network. The defaults are those of the paper's supplement."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from spectral_vmamba.inference.checkpoint import CheckpointHeader
from spectral_vmamba.models.decoder_config import DecoderConfig
from spectral_vmamba.ops.frames import Frame
from spectral_vmamba.segmentation.augmentation import MaskAugmentation
from spectral_vmamba.training.recipes import find_recipe, read_recipe
from spectral_vmamba.training.run_config import OptimizerConfig, RunConfig
from spectral_vmamba.utils.extras import require
from spectral_vmamba.utils.wording import at_least

MaskLoss = Literal["cross_entropy", "dice", "both"]
# The supplement: AdamW, 6e-5 at 16 images per step, 1,500 steps of warm-up, linear decay to 0.
_SUPPLEMENT = OptimizerConfig(
    lr=1.92e-3, min_lr=0.0, warmup_lr=1.92e-9, weight_decay=0.01, schedule="linear", warmup_steps=1500, clip=0.0
)


@dataclass(frozen=True, kw_only=True)
class SegmentConfig(RunConfig):
    """Settings of one training run.

    >>> SegmentConfig(data="tiles/", decoder="fpn").network.frame
    'quarter'
    """

    data: str = ""
    """training images with masks: a folder with images/ and masks/, a .csv of image,mask[,split], a .npz pack, or a
    folder of ADE20K or Cityscapes"""
    val_fraction: float = 0.2
    """share of the images to hold out for validation if there are no validation images"""
    test_fraction: float = 0.0
    """share of the images to hold out for a final test, used neither in training nor to choose the best epoch"""
    model: str = "spectral_vmamba_nano"
    """backbone: any hierarchical model of `spectral-vmamba models`, or any encoder of timm"""
    model_options: dict[str, Any] = field(default_factory=dict)
    """keywords of the backbone, as in {turns: 1}"""
    pretrained: bool = False
    """start a backbone of timm from weights that are installed or cached on this machine"""
    decoder: str = "upernet"
    """decoder of segmentation_models_pytorch: unet, fpn, upernet, segformer, deeplabv3plus, …"""
    decoder_options: dict[str, Any] = field(default_factory=dict)
    """keywords of the decoder, as in {decoder_channels: 128}"""
    frame: Frame = "quarter"
    """position into which images are turned first; masks are turned back. none: plain; quarter: masks turn with the
    image by quarter turns, to the last bit; moment: by every angle, up to interpolation; upright: by every angle,
    learned from the training images, which must be upright, for backbones with a frozen stem"""
    turns: int = 1
    """1, or 4 to average the scores of the four quarter turns of an image, at four times the work"""
    size: int = 512
    """height and width of the crops that are trained on, in pixels"""
    window: int | None = None
    """larger images are predicted in overlapping windows of this size; defaults to twice the size of the crops, at
    least 512"""
    loss: MaskLoss = "cross_entropy"
    """loss: cross_entropy, dice, or both, their sum"""
    class_weights: tuple[float, ...] | Literal["balanced"] | None = None
    """weight of each class in the cross-entropy; balanced: inversely by the square root of the number of its pixels"""
    augment: MaskAugmentation = field(default_factory=MaskAugmentation)
    optimizer: OptimizerConfig = field(default_factory=lambda: _SUPPLEMENT)
    batch_size: int = 2
    """images per step and process"""
    ema: float = 0.0
    """decay of the exponential moving average of the weights; 0 to disable"""
    patience: int = 0
    """stop after this many epochs without a better validation IoU; 0 to disable"""
    initial: str | None = None
    """checkpoint to start from: of a segmentation network, or of a classifier with the same backbone"""

    def __post_init__(self):
        super().__post_init__()
        at_least(1, size=self.size, window=self.window)
        if isinstance(self.class_weights, tuple) and any(not 0 <= weight < 1e6 for weight in self.class_weights):
            raise ValueError(f"expected class weights of at least 0, got {self.class_weights}")
        if self.pretrained and self.initial:
            raise ValueError("expected pretrained weights or an initial checkpoint, got both")
        self.network  # noqa: B018 (checks the decoder)

    @property
    def network(self) -> DecoderConfig:
        return DecoderConfig(self.decoder, self.decoder_options, self.frame, self.turns)

    @property
    def largest_window(self) -> int:
        return self.window or max(2 * self.size, 512)

    def describes(self, header: CheckpointHeader) -> bool:
        return super().describes(header) and header.masks is not None and header.masks.decoder == self.network


def segment_recipe(name: str, **changes: Any) -> SegmentConfig:
    """The settings of a recipe for segmentation, or of a YAML file, with changes. A group of settings may be changed in
    part.

    >>> from spectral_vmamba import segment_recipe
    >>> config = segment_recipe("segment_lite", data="tiles/", augment={"rotation": 180})
    >>> config.model, config.augment.rotation
    ('spectral_vmamba_lite', 180)
    """
    return without_options_of_another_decoder(read_recipe(SegmentConfig, "segmentation", name, changes), name)


def without_options_of_another_decoder(config: SegmentConfig, recipe: str) -> SegmentConfig:
    """The settings without the recipe's options of its decoder, if another decoder was chosen and none for that."""
    stored: dict[str, Any] = require("yaml", "train").safe_load(find_recipe(recipe, "segmentation").read_text("utf-8"))
    inherited = config.decoder_options == stored.get("decoder_options", {})
    return replace(config, decoder_options={}) if inherited and config.decoder != stored.get("decoder") else config
