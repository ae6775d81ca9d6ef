"""Settings that every training run has, whatever it learns."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from spectral_vmamba.data.sources import DataSplit, absolute_path
from spectral_vmamba.inference.checkpoint import CheckpointHeader
from spectral_vmamba.inference.model_options import check_model, storable_options
from spectral_vmamba.utils.devices import Device
from spectral_vmamba.utils.wording import at_least


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with warm-up and decay.

    >>> OptimizerConfig(lr=1e-3).weight_decay
    0.05
    """

    name: str = "adamw"
    """any optimizer of timm"""
    lr: float = 5e-4
    """learning rate at 512 images per step; scales linearly with the images per step"""
    schedule: Literal["cosine", "linear"] = "cosine"
    """decay of the learning rate after the warm-up"""
    min_lr: float = 5e-6
    """final learning rate; scales like lr"""
    warmup_lr: float = 5e-7
    """initial learning rate of the warm-up; scales like lr"""
    warmup_epochs: float = 20
    """epochs of linear warm-up"""
    warmup_steps: int = 0
    """steps of linear warm-up, in place of warmup_epochs; 0 to use those"""
    betas: tuple[float, float] = (0.9, 0.999)
    """decay rates of the moment estimates"""
    weight_decay: float = 0.05
    """weight decay"""
    clip: float = 5.0
    """largest gradient norm; 0 for no limit"""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Settings of data, optimization and reporting. A subclass adds what is learned."""

    path_settings: ClassVar[tuple[str, ...]] = ("data", "val_data", "initial")

    data: str = ""
    """training images"""
    val_data: str | None = None
    """validation images, if `data` does not contain them"""
    val_fraction: float = 0.2
    """share of every class to hold out for validation if there are no validation images"""
    test_fraction: float = 0.0
    """share of every class to hold out for a final test, used neither in training nor to choose the best epoch"""
    output: str = "runs/last"
    """output folder for checkpoints, settings and curves"""
    workers: int | None = None
    """data loading processes; defaults to one per core, at most 8"""
    max_unreadable: float = 0.01
    """share of training images that may be unreadable before training stops; one may always be, except with 0"""
    model: str = "spectral_vmamba_nano"
    """any model of `spectral-vmamba models` or of timm"""
    model_options: dict[str, Any] = field(default_factory=dict)
    """keywords of the model, as in {domain: disk}"""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    epochs: int = 300
    """training epochs"""
    steps: int = 0
    """train for exactly this many steps, in place of epochs; 0 to use those"""
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
    split_seed: int | None = None
    """seed of the split alone, so that runs with other seeds have the same validation images; defaults to seed"""
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
        at_least(0, workers=self.workers, patience=self.patience, min_steps=self.min_steps, steps=self.steps)
        at_least(0, warmup_steps=self.optimizer.warmup_steps)
        if self.batch_size % self.accumulate:
            raise ValueError(f"cannot divide {self.batch_size} images into {self.accumulate} equal micro-batches")
        if not 0 <= self.ema < 1:
            raise ValueError(f"expected 0 ≤ ema < 1, got {self.ema}")
        if not 0 <= self.max_unreadable <= 1:
            raise ValueError(f"expected 0 ≤ max_unreadable ≤ 1, got {self.max_unreadable}")
        if not 0 <= self.test_fraction < 1:
            raise ValueError(f"expected 0 ≤ test_fraction < 1, got {self.test_fraction}")

    @property
    def network_options(self) -> dict[str, Any]:
        """Keywords of the model."""
        return self.model_options

    @property
    def second_view_offset(self) -> int | None:
        """If every step shows two views of each image: how many epochs later the second one is shown, 0 for after the
        last; None for one view."""
        return None

    @property
    def split(self) -> DataSplit:
        seed = self.seed if self.split_seed is None else self.split_seed
        return DataSplit(self.data, self.val_data, self.val_fraction, seed, self.test_fraction)

    def with_absolute_paths(self) -> Self:
        """Files and folders by absolute paths, so that a run finds its images from any working directory."""
        given = {name: getattr(self, name) for name in self.path_settings if getattr(self, name)}
        return replace(self, **{name: absolute_path(path) for name, path in given.items()})

    def with_choices_of(self, stored: Self) -> Self:
        """The settings with what a run that was started with `stored` has chosen by itself."""
        return self

    def describes(self, header: CheckpointHeader) -> bool:
        """Whether a checkpoint with this header contains the weights of a run with these settings."""
        options = check_model(self.model, storable_options(self.network_options))
        return (self.model, options) == (header.model, header.model_options)
