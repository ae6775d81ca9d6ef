"""The rules of STS in which this package departs from the paper or from the authors' code, each as a choice."""

from dataclasses import dataclass
from typing import Literal, get_args

Edges = Literal["either", "mutual"]
Components = Literal["bridged", "unbridged", "piecewise"]
DistanceScale = Literal["image", "batch"]
SignRule = Literal["content", "first", "nodes"]


@dataclass(frozen=True)
class GraphRules:
    """The defaults are the rules of this package. Others are computed by dense matrices on every device."""

    # whether there is an edge if one token is among the nearest neighbors of the other, or only if both are
    edges: Edges = "either"
    # of a disconnected graph: "bridged" by the edges of the minimum spanning trees; "unbridged", with several zero
    # eigenvalues, as in the authors' code; "piecewise", one piece after the other, each by its own eigenvectors
    components: Components = "bridged"
    # whether each token is its own first neighbor, with a weight of 1, as in the authors' code
    self_neighbor: bool = False
    # σ is the mean distance of the image, or that of the whole batch, with the zeros between equal tokens, as in the
    # authors' code: an answer then depends on the other images of the batch
    distance_scale: DistanceScale = "image"
    # the sign of an eigenvector: by content (`canonical`); "first", the paper's: the first non-zero entry is positive;
    # "nodes", the authors' code's: each token's entries times the sign of their mean over the eigenvectors
    sign_rule: SignRule = "content"

    def __post_init__(self):
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"expected {name} to be one of {', '.join(choices)}; got {getattr(self, name)!r}")


_CHOICES: dict[str, tuple[str, ...]] = {
    "edges": get_args(Edges),
    "components": get_args(Components),
    "distance_scale": get_args(DistanceScale),
    "sign_rule": get_args(SignRule),
}
DEFAULT_RULES = GraphRules()
