"""All settings of the training of a classifier. The defaults are the paper's recipe."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from spectral_vmamba.data.transforms import Augmentation
from spectral_vmamba.ops.frames import Frame
from spectral_vmamba.training.run_config import RunConfig
from spectral_vmamba.utils.wording import at_least

_CACHED_VIEWS = 8


@dataclass(frozen=True, kw_only=True)
class TrainConfig(RunConfig):
    """Settings of one training run.

    >>> TrainConfig(data="photos/", epochs=30).optimizer.lr
    0.0005
    """

    path_settings: ClassVar[tuple[str, ...]] = (*RunConfig.path_settings, "cache_folder", "teacher")

    data: str = ""
    """training images: a folder (train/, val/ and optionally test/, or one folder per class), a .csv of
    path,label[,split], a .npz pack, `digits` (built in), or the name of a dataset: torch/…, hfds/…, wds/SHARDS"""
    frame: Frame | Literal["auto"] | None = None
    """position into which images are turned before the network sees them: none, quarter (exact, for quarter turns),
    moment (for every angle), upright (for every angle; learned from the training images, which must be upright, for
    models with a frozen stem, best with --turns 1), or auto, which compares the last three on training images; defaults
    to the model's"""
    turns: int | None = None
    """turned copies of an image whose features are pooled: 1, 4 or 8 for Spectral VMamba, 1, 2 or a multiple of 4 for
    other networks; multiplies the work; defaults to the model's"""
    image_size: int | None = None
    """image height and width in pixels; defaults to the model's"""
    crop: float | None = None
    """share of the short side that the validation crop keeps; defaults to the model's"""
    borders: bool = True
    """with the frames moment and upright, leave out a uniform border around the content of images, as of scans"""
    views: int = 0
    """number of augmented views per image, used in turn; 0 draws a new view every epoch (8 with a cache)"""
    consistency: float = 0.0
    """weight of a loss that ties the predictions for two views of each image; every step then shows both views, which
    doubles its work; 0 to disable"""
    teacher: str | None = None
    """trained network whose predictions are learned too (distillation): a run folder, a checkpoint, or the name of
    weights that ship; it must have the same classes, sees the same views at its own image size, and adds its work to
    every step"""
    teacher_share: float = 0.5
    """share of the loss that is the distance to the predictions of the teacher; the rest is that to the labels"""
    teacher_temperature: float = 2.0
    """softens the predictions that are compared: 1 leaves them as they are"""
    cache: bool = False
    """cache frozen-stem features and train on them: computed once, then training is many times faster"""
    cache_folder: str | None = None
    """folder of the feature cache, which runs share; defaults to a folder in the user's cache folder"""
    cache_precision: Literal["float16", "float32"] = "float16"
    """precision of cached features; float32 gives the same weights as training without the cache"""
    augment: Augmentation = field(default_factory=Augmentation)

    def __post_init__(self):
        super().__post_init__()
        at_least(1, image_size=self.image_size)
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
        if not 0 <= self.teacher_share <= 1:
            raise ValueError(f"expected a teacher_share from 0 to 1, got {self.teacher_share}")
        if not 0 < self.teacher_temperature < math.inf:
            raise ValueError(f"expected a teacher_temperature above 0, got {self.teacher_temperature}")
        if self.teacher and self.cache:
            raise ValueError(
                "a teacher sees the pixels of each view, and a cache has features only; set --no-cache, or leave out "
                "the teacher"
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
    def second_view_offset(self) -> int | None:
        """Half of the views away, or, where every epoch shows new views, those after the last epoch."""
        return self.view_count // 2 if self.consistency else None

    def with_choices_of(self, stored: "TrainConfig") -> "TrainConfig":
        return replace(self, frame=stored.frame) if self.frame == "auto" else self
