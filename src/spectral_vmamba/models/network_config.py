"""Base classes of the architecture configurations."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from spectral_vmamba.layers.directional import GridSize
from spectral_vmamba.ops.frames import FRAMES, Frame, TurnPool
from spectral_vmamba.ops.selective_scan import Backend

_PYRAMID = (2, 4, 8, 16, 32)
_MOST_TURNS = 72  # every 5°


@dataclass(frozen=True)
class NetworkConfig:
    """The choices that define an architecture. Each field is also a keyword of `timm.create_model`."""

    # The position into which images are turned first (`ops.frames`): with a frame, every network gives the same bits
    # for all quarter turns of an image, with "moment" and "upright" similar ones for all angles. Keyword only, because
    # subclasses have fields without defaults.
    frame: Frame = field(default="none", kw_only=True)
    # Number of turned copies of an image whose features are pooled, and how.
    turns: int | Literal["random"] = field(default=1, kw_only=True)
    turn_pool: TurnPool = field(default="mean", kw_only=True)

    def __post_init__(self):
        if self.frame not in FRAMES:
            raise ValueError(f"expected frame to be one of {', '.join(FRAMES)}; got {self.frame!r}")
        if self.frame == "upright" and not self.has_frozen_stem:
            raise ValueError(
                "the frame upright requires a network with a frozen pretrained stem, such as spectral_vmamba_lite; "
                "the frame moment works with every network"
            )
        if self.turn_pool not in ("max", "mean"):
            raise ValueError(f"expected turn_pool max or mean, got {self.turn_pool!r}")
        turns = self.copies
        if turns < 1 or (turns > 2 and turns % 4) or turns > _MOST_TURNS:
            raise ValueError(f"expected 1, 2 or a multiple of 4 turns, at most {_MOST_TURNS}, got {turns!r}")

    @classmethod
    def from_keywords(cls, **keywords: Any) -> "NetworkConfig":
        """Build a configuration from the keywords that timm passes on. timm drops keywords that are None: the string
        "none" means None, except for `frame`. Lists, as JSON has them, become tuples."""
        return cls(**{name: as_tuples(option_value(name, value)) for name, value in keywords.items()})

    @property
    def copies(self) -> int:
        """Turned copies of an image that pass through the whole network; their pooled features are pooled again."""
        if not isinstance(self.turns, int):
            raise ValueError(f"expected a number of turns, got {self.turns!r}; only Spectral VMamba takes random ones")
        return self.turns

    @property
    def has_pretrained_stem(self) -> bool:
        """Whether the first layers are a pretrained network of timm."""
        return False

    @property
    def has_frozen_stem(self) -> bool:
        """Whether these are not trained further."""
        return False

    @property
    def strides(self) -> tuple[int, ...]:
        """The stride in pixels of every feature map."""
        raise NotImplementedError

    @property
    def feature_maps(self) -> int:
        """Number of feature maps that `features_only=True` returns by default; they are the last ones."""
        raise NotImplementedError

    @property
    def features_only_options(self) -> dict[str, Any]:
        """Options whose default is another one with `features_only=True`."""
        return {}

    @property
    def is_quarter_turn_invariant(self) -> bool:
        """Whether the logits stay the same when the image is turned by quarter turns: by the frame, to the last bit, or
        by the layers themselves."""
        return self.frame != "none" or self.is_quarter_turn_invariant_without_frame

    @property
    def is_quarter_turn_invariant_without_frame(self) -> bool:
        """Whether the layers alone, without a frame, keep the logits the same up to rounding."""
        return self.copies % 4 == 0


@dataclass(frozen=True)
class HierarchyConfig(NetworkConfig):
    """Stages of blocks; each stage after the first halves the grid."""

    patch_size: ClassVar[int] = 4

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    # Whether there are feature maps of all strides from `finest_stride` to 32: those finer than a patch are maps of the
    # stem, those coarser than the last stage are its map, max-pooled. Adds no parameters and does not change logits.
    # Defaults to True for `features_only=True`.
    pyramid: bool = field(default=False, kw_only=True)
    finest_stride: int = field(default=4, kw_only=True)  # 4, or 2 with a pretrained stem that has such a map
    # The largest stride of a stage: later stages keep the grid. None: every stage halves it.
    output_stride: int | None = field(default=None, kw_only=True)

    def __post_init__(self):
        super().__post_init__()
        if len(self.widths) != len(self.depths) or not self.widths:
            raise ValueError(f"expected one depth per width, got widths {self.widths} and depths {self.depths}")
        if self.finest_stride not in ((2, 4) if self.has_pretrained_stem else (4,)):
            also = " or 2" if self.has_pretrained_stem else " (2 requires a pretrained stem)"
            raise ValueError(f"expected a finest_stride of 4{also}, got {self.finest_stride}")
        halved = [self.patch_size * 2**i for i in range(len(self.widths))]
        if self.output_stride is not None and self.output_stride < self.patch_size:
            raise ValueError(
                f"expected an output_stride of at least the patch size, {self.patch_size}, got {self.output_stride}; "
                f"a network with smaller patches, such as vmamba_tiny, has finer maps"
            )
        if self.output_stride is not None and self.output_stride < halved[-1] and self.output_stride not in halved:
            raise ValueError(f"expected one of the strides {halved} as output_stride, got {self.output_stride}")

    @property
    def stage_strides(self) -> tuple[int, ...]:
        """The stride of every stage."""
        largest = self.output_stride or self.patch_size * 2 ** len(self.widths)
        return tuple(min(self.patch_size * 2**i, largest) for i in range(len(self.widths)))

    @property
    def finer_strides(self) -> tuple[int, ...]:
        """The strides of the feature maps that are finer than a patch."""
        finer = [stride for stride in _PYRAMID if self.finest_stride <= stride < self.patch_size]
        return tuple(finer) if self.pyramid else ()

    @property
    def coarser_strides(self) -> tuple[int, ...]:
        """The strides of the feature maps after the last stage; a limited `output_stride` limits them, too."""
        last = self.patch_size * 2 ** (len(self.widths) - 1)
        coarser = [stride for stride in _PYRAMID if stride > last] if self.pyramid else []
        return tuple(min(stride, self.output_stride or stride) for stride in coarser)

    @property
    def strides(self) -> tuple[int, ...]:
        return (*self.finer_strides, *self.stage_strides, *self.coarser_strides)

    @property
    def feature_maps(self) -> int:
        return len(self.strides)

    @property
    def features_only_options(self) -> dict[str, Any]:
        # Decoders expect maps from stride 4 on, and some (segmentation_models_pytorch) look at a network without
        # options first.
        return {"pyramid": True}


@dataclass(frozen=True)
class IsotropicConfig(NetworkConfig):
    """Blocks of one width on one grid."""

    width: int = 192
    depth: int = 24
    state_size: int = 16
    patch_size: int = 16
    img_size: int | tuple[int, int] = 224  # size of the position table; the network takes images of any size
    backend: Backend = "auto"

    def __post_init__(self):
        super().__post_init__()
        for name in ("width", "depth", "state_size", "patch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} ≥ 1, got {getattr(self, name)}")
        if min(self.grid) < 1:
            raise ValueError(f"expected an img_size of at least one pixel, got {self.img_size}")

    @property
    def grid(self) -> GridSize:
        """Rows and columns of the position table."""
        height, width = (self.img_size, self.img_size) if isinstance(self.img_size, int) else self.img_size
        return -(-height // self.patch_size), -(-width // self.patch_size)

    @property
    def strides(self) -> tuple[int, ...]:
        return (self.patch_size,) * self.depth

    @property
    def feature_maps(self) -> int:
        return min(3, self.depth)


def option_value(name: str, value: Any) -> Any:
    """The value of an option that timm passed on: "none" stands for None, except for `frame`."""
    return None if value == "none" and name != "frame" else value


def as_tuples(value: Any) -> Any:
    """Convert lists, also nested ones, to tuples."""
    return tuple(as_tuples(part) for part in value) if isinstance(value, (list, tuple)) else value
