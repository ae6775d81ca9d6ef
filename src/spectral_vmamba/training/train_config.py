"""All settings of a training run. The defaults are the paper's recipe."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from spectral_vmamba.data.sources import DataSplit, absolute_path
from spectral_vmamba.data.transforms import Augmentation
from spectral_vmamba.ops.frames import Frame
from spectral_vmamba.utils.devices import Device
from spectral_vmamba.utils.wording import at_least

_CACHED_VIEWS = 8


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with warm-up and cosine decay.

    >>> OptimizerConfig(lr=1e-3).weight_decay
    0.05
    """

    name: str = "adamw"
    """any optimizer of timm"""
    lr: float = 5e-4
    """learning rate at 512 images per step; scales linearly with the images per step"""
    min_lr: float = 5e-6
    """final learning rate of the cosine; scales like lr"""
    warmup_lr: float = 5e-7
    """initial learning rate of the warm-up; scales like lr"""
    warmup_epochs: float = 20
    """epochs of linear warm-up"""
    betas: tuple[float, float] = (0.9, 0.999)
    """decay rates of the moment estimates"""
    weight_decay: float = 0.05
    """weight decay"""
    clip: float = 5.0
    """largest gradient norm; 0 for no limit"""


@dataclass(frozen=True)
class TrainConfig:
    """Settings of one training run.

    >>> TrainConfig(data="photos/", epochs=30).optimizer.lr
    0.0005
    """

    data: str = ""
    """training images: a folder (train/, val/ and optionally test/, or one folder per class), a .csv of
    path,label[,split], a .npz pack, `digits` (built in), or the name of a dataset: torch/…, hfds/…, wds/SHARDS"""
    val_data: str | None = None
    """validation images, if `data` does not contain them"""
    val_fraction: float = 0.2
    """share of every class to hold out for validation if there are no validation images"""
    test_fraction: float = 0.0
    """share of every class to hold out for a final test, used neither in training nor to choose the best epoch"""
    model: str = "spectral_vmamba_nano"
    """any model of `spectral-vmamba models` or of timm"""
    model_options: dict[str, Any] = field(default_factory=dict)
    """keywords of the model, as in {domain: disk}"""
    frame: Frame | Literal["auto"] | None = None
    """position into which images are turned before the network sees them: none, quarter (exact, for quarter turns),
    moment (for every angle), upright (for every angle; learned from the training images, which must be upright, for
    models with a frozen stem, best with --turns 1), or auto, which compares the last three on training images; defaults
    to the model's"""
    turns: int | None = None
    """turned copies of an image whose features are pooled; multiplies the work; defaults to the model's"""
    output: str = "runs/last"
    """output folder for checkpoints, settings and curves"""
    image_size: int | None = None
    """image height and width in pixels; defaults to the model's"""
    crop: float | None = None
    """share of the short side that the validation crop keeps; defaults to the model's"""
    workers: int | None = None
    """data loading processes; defaults to one per core, at most 8"""
    views: int = 0
    """number of augmented views per image, used in turn; 0 draws a new view every epoch (8 with a cache)"""
    consistency: float = 0.0
    """weight of a loss that ties the predictions for two views of each image; every step then shows both views, which
    doubles its work; 0 to disable"""
    cache: bool = False
    """cache frozen-stem features and train on them: computed once, then training is many times faster"""
    cache_folder: str | None = None
    """folder of the feature cache, which runs share; defaults to a folder in the user's cache folder"""
    cache_precision: Literal["float16", "float32"] = "float16"
    """precision of cached features; float32 gives the same weights as training without the cache"""
    max_unreadable: float = 0.01
    """share of training images that may be unreadable before training stops; one may always be, except with 0"""
    augment: Augmentation = field(default_factory=Augmentation)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    epochs: int = 300
    """training epochs"""
    min_steps: int = 0
    """minimum number of steps: small datasets are trained for more epochs, with a proportionally longer warm-up"""
    batch_size: int = 128
    """images per step and process"""
    accumulate: int = 1
    """gradient-accumulation steps per optimizer step; saves memory"""
    ema: float = 0.9999
    """decay of the exponential moving average of the weights; 0 to disable"""
    ema_warmup: bool = False
    """increase the decay from 0, for short runs"""
    drop_path: float | None = None
    """stochastic depth rate; defaults to the model's"""
    initial: str | None = None
    """checkpoint to initialize the weights from; includes the classifier if the classes are the same"""
    seed: int = 0
    """seed of the split, the weights, the data order and the augmentation"""
    device: Device = "auto"
    """device to train on: auto (GPUs if there are any), cpu, cuda or mps"""
    precision: Literal["no", "bf16", "fp16"] = "no"
    """mixed precision of training"""
    compile: bool = False
    """torch.compile the model"""
    tracker: str = "auto"
    """experiment tracker: tensorboard (auto: if installed), wandb, mlflow, … through accelerate, or none"""
    patience: int = 0
    """stop after this many epochs without a better validation accuracy; 0 to disable"""
    save_minutes: float = 10.0
    """also save within an epoch after this many minutes"""

    def __post_init__(self):
        at_least(1, epochs=self.epochs, batch_size=self.batch_size, accumulate=self.accumulate)
        at_least(1, image_size=self.image_size)
        at_least(0, workers=self.workers, patience=self.patience, min_steps=self.min_steps)
        if self.batch_size % self.accumulate:
            raise ValueError(f"cannot divide {self.batch_size} images into {self.accumulate} equal micro-batches")
        if not 0 <= self.ema < 1:
            raise ValueError(f"expected 0 ≤ ema < 1, got {self.ema}")
        if not 0 <= self.max_unreadable <= 1:
            raise ValueError(f"expected 0 ≤ max_unreadable ≤ 1, got {self.max_unreadable}")
        if not 0 <= self.test_fraction < 1:
            raise ValueError(f"expected 0 ≤ test_fraction < 1, got {self.test_fraction}")
        if self.views < 0:
            raise ValueError(f"expected a number of views, or 0 for a new view every epoch, got {self.views}")
        if not 0 <= self.consistency < math.inf:
            raise ValueError(f"expected a consistency of at least 0, got {self.consistency}")
        if self.consistency and self.view_count == 1:
            raise ValueError("consistency needs two different views of each image; set --views 2 or more")
        if self.consistency and (self.augment.mixup or self.augment.cutmix):
            raise ValueError(
                "consistency compares two views of the same image, which mixup and cutmix would mix with others; set "
                "--augment.mixup 0 --augment.cutmix 0"
            )
        mixing = [name for name in ("erasing", "mixup", "cutmix") if getattr(self.augment, name)]
        if self.cache and mixing:
            options = " ".join(f"--augment.{name} 0" for name in mixing)
            raise ValueError(f"cached views cannot be changed by {', '.join(mixing)}; set {options}")

    @property
    def view_count(self) -> int:
        """Views per image; 0 for a new one every epoch."""
        return self.views or (_CACHED_VIEWS if self.cache else 0)

    @property
    def network_options(self) -> dict[str, Any]:
        """Keywords of the model, with its frame and turns. The frame auto must have been chosen."""
        if self.frame == "auto":
            raise ValueError("the frame auto is chosen when training starts: see training.choose_frame")
        pose = {"frame": self.frame, "turns": self.turns}
        return {**self.model_options, **{name: value for name, value in pose.items() if value is not None}}

    @property
    def split(self) -> DataSplit:
        return DataSplit(self.data, self.val_data, self.val_fraction, self.seed, self.test_fraction)

    def with_absolute_paths(self) -> "TrainConfig":
        """Files and folders by absolute paths, so that a run finds its images from any working directory."""
        names = ("data", "val_data", "initial", "cache_folder")
        given = {name: getattr(self, name) for name in names if getattr(self, name)}
        return replace(self, **{name: absolute_path(path) for name, path in given.items()})
