"""Everything a training run is decided by, as values. The defaults are the paper's recipe."""

import os
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from spectral_vmamba.data.transforms import Augmentation


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with a warm-up and a cosine."""

    name: str = "adamw"
    """any of timm's optimizers"""
    lr: float = 5e-4
    """learning rate for 512 images a step; scaled in proportion"""
    min_lr: float = 5e-6
    """where the cosine ends, scaled like lr"""
    warmup_lr: float = 5e-7
    """where the warm-up begins, scaled like lr"""
    warmup_epochs: float = 20
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.05
    clip: float = 5.0
    """largest norm of the gradient; 0 for no limit"""


@dataclass(frozen=True)
class TrainConfig:
    """One training run."""

    data: str = "digits"
    """images: a folder (train/ and val/, or one folder a class), a .csv of path,label[,split], a .npz pack, `digits`
    (built in), or a data set's name: torch/…, hfds/…, wds/SHARDS"""
    val_data: str | None = None
    """images to validate on, if not in the data"""
    val_fraction: float = 0.2
    """share of every class to set aside for validation where the data has no such part"""
    model: str = "spectral_vmamba_nano"
    """any model of `spectral-vmamba models` or of timm"""
    model_options: dict[str, Any] = field(default_factory=dict)
    """keywords of the model, as in {domain: disk}"""
    output: str = "runs/last"
    """folder for checkpoints, settings and curves"""
    image_size: int | None = None
    """pixels a side; the model's own unless given"""
    crop: float | None = None
    """share of the short side that validation sees; the model's own unless given"""
    workers: int | None = None
    """processes that prepare images; one for every processor, up to 8, unless given"""
    views: int = 0
    """augmented views of every image, shown in turn; 0 for a new one in every epoch (with a cache: 8)"""
    cache: bool = False
    """keep what a frozen stem says about every view, and learn from that: computed once, then many times as fast"""
    cache_folder: str | None = None
    """where the cache is, which runs share; below the user's own cache folder unless given"""
    cache_precision: Literal["float16", "float32"] = "float16"
    """of the features that are kept; float32 gives the weights that training without the cache gives"""
    max_broken: float = 0.01
    """share of the training images that may be unreadable before training stops"""
    augment: Augmentation = field(default_factory=Augmentation)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    epochs: int = 300
    min_steps: int = 0
    """steps that a run has at least: few images are shown in more epochs, with a warm-up longer in proportion"""
    batch_size: int = 128
    """images a step in every process"""
    accumulate: int = 1
    """smaller batches that a process's images of a step are cut into, one after the other; saves memory"""
    ema: float = 0.9999
    """decay of the moving average of the weights; 0 for none"""
    ema_warmup: bool = False
    """let the decay grow from 0, for runs of few steps"""
    drop_path: float | None = None
    """stochastic depth; the model's own unless given"""
    initial: str | None = None
    """a checkpoint to take the weights from; its classifier too, if it has the same classes"""
    seed: int = 0
    device: Literal["auto", "cpu"] = "auto"
    precision: Literal["no", "bf16", "fp16"] = "no"
    """of matrix products in training"""
    compile: bool = False
    """torch.compile the model"""
    tracker: str = "auto"
    """where curves go: tensorboard (auto: if it is installed), wandb, mlflow, … through accelerate, or none"""
    patience: int = 0
    """stop after so many epochs without a better validation accuracy; 0 for never"""
    save_minutes: float = 10.0
    """also save within an epoch when so much time has passed"""

    def __post_init__(self):
        for name in ("epochs", "batch_size", "accumulate"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} of at least 1, got {getattr(self, name)}")
        if self.batch_size % self.accumulate:
            raise ValueError(f"cannot cut {self.batch_size} images into {self.accumulate} equal batches")
        if not 0 <= self.ema < 1:
            raise ValueError(f"expected ema from 0 to below 1, got {self.ema}")
        if not 0 <= self.max_broken <= 1:
            raise ValueError(f"expected max_broken from 0 to 1, got {self.max_broken}")

        if self.min_steps < 0:
            raise ValueError(f"expected min_steps of at least 0, got {self.min_steps}")
        if self.views < 0:
            raise ValueError(f"expected a number of views, or 0 for a new one in every epoch, got {self.views}")
        mixed = [name for name in ("erasing", "mixup", "cutmix") if getattr(self.augment, name)]
        if self.cache and mixed:
            options = " ".join(f"--augment.{name} 0" for name in mixed)
            raise ValueError(f"a cache keeps views as they are: {', '.join(mixed)} would change them; set {options}")

    @property
    def kept_views(self) -> int:
        """Views of every image; 0 for a new one in every epoch."""
        return self.views or (8 if self.cache else 0)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "TrainConfig":
        """The inverse of `as_dict`, also after a journey through JSON."""
        parts = {"augment": Augmentation, "optimizer": OptimizerConfig}
        made = {name: kind(**_tuples(stored[name])) for name, kind in parts.items()}
        return cls(**{**stored, **made})


def with_absolute_paths(config: TrainConfig) -> TrainConfig:
    """Files and folders by their whole paths, so that a run finds its images from wherever it is used."""
    names = ("data", "val_data", "initial", "cache_folder")
    paths = {name: getattr(config, name) for name in names}
    return replace(config, **{name: os.path.abspath(p) for name, p in paths.items() if p and os.path.exists(p)})


def _tuples(stored: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()}
