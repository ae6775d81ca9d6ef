"""The configuration of Spectral VMamba."""

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from spectral_vmamba.layers.mixer import LocalMixing, Merge
from spectral_vmamba.layers.rfn import TurnPool, Turns, are_quarter_turns, check_turns
from spectral_vmamba.models.network_config import HierarchyConfig
from spectral_vmamba.ops.frames import Frame
from spectral_vmamba.ops.grid import Domain, Grid
from spectral_vmamba.ops.orders import Pattern, pattern_directions, pattern_orders
from spectral_vmamba.ops.selective_scan import Backend
from spectral_vmamba.ops.spectral import DEFAULT_RULES, SOLVERS, GraphRules, Solver
from spectral_vmamba.ops.spectral.rules import Components, DistanceScale, Edges, SignRule

GraphFeatures = Literal["stem", "in_proj"]
Pooling = Literal["max", "corner"]
_PAIRED_TRAVERSALS = ("spectral", "random")  # two paths along each vector: ascending and descending


@dataclass(frozen=True)
class SpectralConfig(HierarchyConfig):
    """All choices of the architecture. Each is also a keyword of `timm.create_model("spectral_vmamba_…", …)`.

    >>> SpectralConfig(widths=(64, 128), depths=(1, 1), stem="conv", eigenvectors=2).paths
    4
    """

    widths: tuple[int, ...] = (256, 512, 1024, 2048)
    depths: tuple[int, ...] = (2, 2, 5, 2)
    # stem and RFN
    stem: str = "timm:resnet18"  # "timm:NAME" (pretrained) or "conv" (trained from scratch)
    # "auto": from a package or hub cache, else random with a warning; "required": the same, else an error;
    # a path; None: random
    stem_weights: str | None = "auto"
    freeze_stem: bool = True  # False: a pretrained stem is trained, with the statistics of its BatchNorm as they are
    stem_channels: int | None = None  # of the conv stem; defaults to the first width
    patch_size: int = 16
    domain: Domain = "square"
    # STS
    traversal: Pattern = "spectral"  # "spectral", "random", or a pattern of `ops.orders`
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
    # where the paper or the authors' code does something else: `GraphRules`, and
    edges: Edges = "either"
    components: Components = "bridged"
    self_neighbor: bool = False
    distance_scale: DistanceScale = "image"
    sign_rule: SignRule = "content"
    graph_features: GraphFeatures = "stem"  # "in_proj": those that enter the first scan, so that orders are learned
    pooling: Pooling = "max"  # "corner": the top-left token of each window, whatever its features
    frame: Frame = field(default="quarter", kw_only=True)
    # copies of the image of which RFN pools the stem's maps; 1: no RFN
    turns: Turns = field(default=4, kw_only=True)
    turn_pool: TurnPool = field(default="max", kw_only=True)

    def __post_init__(self):
        super().__post_init__()
        check_turns(self.turns)
        _check_choice("domain", self.domain, ("square", "disk"))
        if isinstance(self.traversal, str) and self.traversal not in _PAIRED_TRAVERSALS:
            try:
                pattern_directions(self.traversal)
            except ValueError as error:
                raise ValueError(f"expected traversal spectral, random or a scan pattern: {error}") from error
        if self.share_directions and self.traversal not in _PAIRED_TRAVERSALS:
            raise ValueError(
                f"expected a spectral or random traversal with share_directions, which needs pairs of opposite paths; "
                f"got {self.traversal!r}"
            )
        _check_choice("solver", self.solver, SOLVERS)
        _check_choice("graph_features", self.graph_features, ("stem", "in_proj"))
        _check_choice("pooling", self.pooling, ("max", "corner"))
        if self.pooling == "corner" and self.domain != "square":
            raise ValueError(
                "expected pooling max with the domain disk, where windows can lack their corner; got corner"
            )
        if self.rules != DEFAULT_RULES and self.solver not in ("auto", "dense"):
            raise ValueError(
                f"expected the solver auto or dense with other rules than the default ones, got {self.solver}"
            )
        if self.eigenvectors < 1:
            raise ValueError(f"expected eigenvectors ≥ 1, got {self.eigenvectors}")
        if self.neighbors is not None and self.neighbors < 1:
            raise ValueError(f"expected neighbors ≥ 1, or None for every pair of tokens, got {self.neighbors}")

    @property
    def rules(self) -> GraphRules:
        return GraphRules(**{field.name: getattr(self, field.name) for field in fields(GraphRules)})

    @property
    def has_fixed_orders(self) -> bool:
        """Whether the orders of an image depend on nothing but its stem features."""
        return self.graph_features == "stem" and self.distance_scale == "image"

    @property
    def features_only_options(self) -> dict[str, Any]:
        # A classifier may look at the inscribed disk alone; the maps of a decoder cover the whole image.
        return {**super().features_only_options, "domain": "square"}

    @property
    def has_pretrained_stem(self) -> bool:
        return self.stem != "conv"

    @property
    def has_frozen_stem(self) -> bool:
        return self.has_pretrained_stem and self.freeze_stem

    @property
    def copies(self) -> int:
        return 1  # RFN pools the turns, at the stem

    @property
    def paths(self) -> int:
        """Number of visiting orders."""
        if self.traversal in _PAIRED_TRAVERSALS:
            return 2 * self.eigenvectors
        return len(pattern_orders(self.traversal, Grid(2, 2)))

    @property
    def is_quarter_turn_invariant_without_frame(self) -> bool:
        """RFN makes the features equivariant and STS the orders invariant; local mixing must be isotropic."""
        return (
            are_quarter_turns(self.turns)
            and self.traversal == "spectral"
            and self.local_mixing != "depthwise"
            and self.sign_rule == "content"
            and self.pooling == "max"
        )


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"expected {name} to be one of {', '.join(choices)}; got {value!r}")
