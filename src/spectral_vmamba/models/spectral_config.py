"""What a Spectral VMamba is made of, as one value."""

from dataclasses import dataclass
from typing import Any

from spectral_vmamba.layers.mixer import LocalMixing, Merge
from spectral_vmamba.layers.rfn import Rotations
from spectral_vmamba.ops.grid import Domain, Grid
from spectral_vmamba.ops.orders import Pattern, directions_of, pattern_orders
from spectral_vmamba.ops.selective_scan import Backend
from spectral_vmamba.ops.spectral import SOLVERS, Solver

_IN_PAIRS = ("spectral", "random")  # along each vector one path up, one down


def check_stages(widths: tuple[int, ...], depths: tuple[int, ...]) -> None:
    if len(widths) != len(depths) or not widths:
        raise ValueError(f"expected one depth per width, got widths {widths} and depths {depths}")


@dataclass(frozen=True)
class SpectralConfig:
    """Every choice of the architecture; each is also a keyword of `timm.create_model("spectral_vmamba_…", …)`."""

    widths: tuple[int, ...] = (256, 512, 1024, 2048)
    depths: tuple[int, ...] = (2, 2, 5, 2)
    # stem and RFN
    stem: str = "timm:resnet18"  # or "conv", trained from scratch
    # "auto": package or hub cache, else random with a notice; "required": else an error; a path; None: random
    stem_weights: str | None = "auto"
    stem_channels: int | None = None  # of the conv stem; the first width unless given
    patch_size: int = 16
    rotations: Rotations = 4  # None: no RFN
    canonical_frame: bool = True
    domain: Domain = "square"
    # STS
    traversal: Pattern = "spectral"  # or "random", or orders that know only the grid: see `ops.orders`
    eigenvectors: int = 4
    neighbors: int | None = 5  # None: every pair of tokens
    solver: Solver = "auto"
    seed: int = 0  # of the random traversal
    # S6, STM and the rest of a block
    expand: float = 2.0
    state_size: int = 1
    share_directions: bool = False
    merge: Merge = "sum"
    local_mixing: LocalMixing = None
    local_kernel: int = 3
    radius_embedding: bool = False
    mlp_ratio: float = 4.0
    backend: Backend = "auto"

    def __post_init__(self):
        check_stages(self.widths, self.depths)
        _expect("domain", self.domain, ("square", "disk"))
        if isinstance(self.traversal, str) and self.traversal not in _IN_PAIRS:
            try:
                directions_of(self.traversal)
            except ValueError as error:
                raise ValueError(f"expected traversal spectral, random or a scan pattern: {error}") from error
        if self.share_directions and self.traversal not in _IN_PAIRS:
            raise ValueError(
                f"expected a spectral or random traversal with share_directions, whose paths come in pairs of opposite "
                f"directions; got {self.traversal!r}"
            )
        _expect("solver", self.solver, SOLVERS)
        if self.eigenvectors < 1:
            raise ValueError(f"expected eigenvectors ≥ 1, got {self.eigenvectors}")
        if self.neighbors is not None and self.neighbors < 1:
            raise ValueError(f"expected neighbors ≥ 1, or None for every pair of tokens, got {self.neighbors}")

    @classmethod
    def from_keywords(cls, **keywords) -> "SpectralConfig":
        """timm silently drops keywords that are None, so there the string "none" says the same."""
        values: dict[str, Any] = {name: None if value == "none" else value for name, value in keywords.items()}
        return cls(**values)

    @property
    def paths(self) -> int:
        if self.traversal in _IN_PAIRS:
            return 2 * self.eigenvectors
        return len(pattern_orders(self.traversal, Grid(2, 2)))


def _expect(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"expected {name} to be one of {', '.join(choices)}; got {value!r}")
