"""STM around S6: the token mixer that scans along a Traversal and merges the paths."""

from math import ceil
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.layers.local_mixing import DepthwiseConv, IsotropicConv
from spectral_vmamba.layers.s6 import S6
from spectral_vmamba.ops.selective_scan import Backend
from spectral_vmamba.ops.traversal import Traversal

Merge = Literal["sum", "concat"]
LocalMixing = Literal["isotropic", "depthwise"] | None
_LOCAL_MIXINGS = {None: lambda *_: None, "isotropic": IsotropicConv, "depthwise": DepthwiseConv}


class S6Mixer(nn.Module):
    """project → (local mixing) → SiLU → selective scans along every path → STM → norm → project.

    Every path has its own S6 parameters. With `share_directions` the two directions of an eigenvector share theirs, and
    the result cannot depend on the sign of the eigenvector.

    `merge` defaults to "sum": the paper's text says concatenate, but its results come from a sum. "concat" concatenates
    the outputs of the parameter sets and projects them back.
    """

    def __init__(
        self,
        width: int,
        paths: int,
        expand: float = 2.0,
        state_size: int = 1,
        share_directions: bool = False,
        merge: Merge = "sum",
        local_mixing: LocalMixing = None,
        local_kernel: int = 3,
        backend: Backend = "auto",
    ):
        super().__init__()
        if merge not in ("sum", "concat"):
            raise ValueError(f"expected merge 'sum' or 'concat', got {merge!r}")
        if local_mixing not in _LOCAL_MIXINGS:
            raise ValueError(f"expected local_mixing None, 'isotropic' or 'depthwise', got {local_mixing!r}")
        if share_directions and paths % 2:
            raise ValueError(f"shared directions need paths in pairs, got {paths} paths")
        inner = int(width * expand)
        sets = paths // 2 if share_directions else paths
        self.in_proj = nn.Linear(width, inner, bias=False)
        self.local_mixing = _LOCAL_MIXINGS[local_mixing](inner, local_kernel)
        self.s6 = S6(inner, ceil(width / 16), state_size, sets, backend)
        self.merge = nn.Linear(sets * inner, inner, bias=False) if merge == "concat" else None
        self.out_norm = nn.LayerNorm(inner)
        self.out_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Float[Tensor, "b l c"], traversal: Traversal) -> Float[Tensor, "b l c"]:
        x = self.in_proj(x)
        if self.local_mixing is not None:
            x = self.local_mixing(x, traversal.grid)
        x = F.silu(x)
        if self.merge is None:
            y = self.s6(x, traversal.orders)
        else:
            y = self.merge(torch.cat(self.s6.forward_separate(x, traversal.orders), dim=-1))
        return self.out_proj(self.out_norm(y))
