"""Base classes of the architecture configurations."""

from dataclasses import dataclass, field
from typing import Any

from spectral_vmamba.layers.directional import GridSize
from spectral_vmamba.ops.selective_scan import Backend


@dataclass(frozen=True)
class NetworkConfig:
    """The choices that define an architecture. Each field is also a keyword of `timm.create_model`."""

    # Whether images are turned into their canonical frame (`ops.frames`) first: every network then gives the same bits
    # for all quarter turns of an image. Keyword only, because subclasses have fields without defaults.
    canonical_frame: bool = field(default=False, kw_only=True)

    @classmethod
    def from_keywords(cls, **keywords: Any) -> "NetworkConfig":
        """Build a configuration from the keywords that timm passes on."""
        return cls(**keywords)

    @property
    def feature_maps(self) -> int:
        """Number of feature maps that `features_only=True` returns by default; they are the last ones."""
        raise NotImplementedError

    @property
    def is_quarter_turn_invariant(self) -> bool:
        """Whether the logits stay the same when the image is turned by quarter turns: by the canonical frame, to the
        last bit, or by the layers themselves."""
        return self.canonical_frame or self.is_quarter_turn_invariant_without_frame

    @property
    def is_quarter_turn_invariant_without_frame(self) -> bool:
        """Whether the layers alone, without a canonical frame, keep the logits the same up to rounding."""
        return False


@dataclass(frozen=True)
class HierarchyConfig(NetworkConfig):
    """Stages of blocks; each stage after the first halves the grid."""

    widths: tuple[int, ...]
    depths: tuple[int, ...]

    def __post_init__(self):
        if len(self.widths) != len(self.depths) or not self.widths:
            raise ValueError(f"expected one depth per width, got widths {self.widths} and depths {self.depths}")

    @property
    def feature_maps(self) -> int:
        return len(self.widths)


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
    def feature_maps(self) -> int:
        return min(3, self.depth)
