"""S6 and STM: the token mixer that scans along a Traversal and merges the paths."""

from math import ceil, log
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.layers.local_mixing import IsotropicConv
from spectral_vmamba.ops.selective_scan import Backend, resolve_backend, selective_scan
from spectral_vmamba.ops.traversal import Traversal

Merge = Literal["sum", "concat"]
LocalMixing = Literal["isotropic"] | None


class S6Mixer(nn.Module):
    """project → (local mixing) → SiLU → selective scans along every path → STM → norm → project.

    Every path has its own S6 parameters; with `share_directions` the two directions of an eigenvector share theirs, and
    the result cannot depend on the eigenvector's sign at all.

    merge="sum", not "concat": the paper's text says concatenate, its results come from a sum. "concat" keeps the
    outputs of the parameter sets apart and projects them back.
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
        if local_mixing not in (None, "isotropic"):
            raise ValueError(f"expected local_mixing None or 'isotropic', got {local_mixing!r}")
        if share_directions and paths % 2:
            raise ValueError(f"shared directions need paths in pairs, got {paths} paths")
        inner = int(width * expand)
        sets = paths // 2 if share_directions else paths
        self.rank, self.state_size = ceil(width / 16), state_size
        self.backend: Backend = resolve_backend(backend)
        self.in_proj = nn.Linear(width, inner, bias=False)
        self.local_mixing = IsotropicConv(inner, local_kernel) if local_mixing else None
        self.x_proj = nn.Parameter(torch.empty(sets, self.rank + 2 * state_size, inner))
        self.dt_proj = nn.Parameter(torch.empty(sets, inner, self.rank))
        self.dt_bias = nn.Parameter(torch.empty(sets, inner))
        self.A_log = nn.Parameter(torch.empty(sets, inner, state_size))
        self.D = nn.Parameter(torch.empty(sets, inner))
        self.merge = nn.Linear(sets * inner, inner, bias=False) if merge == "concat" else None
        self.out_norm = nn.LayerNorm(inner)
        self.out_proj = nn.Linear(inner, width, bias=False)
        self.reset_scan_parameters()

    def reset_scan_parameters(self) -> None:
        """Mamba's initialisation: Δ between 1e-3 and 1e-1, A = −1, −2, …, D = 1."""
        nn.init.uniform_(self.x_proj, -(self.x_proj.shape[-1] ** -0.5), self.x_proj.shape[-1] ** -0.5)
        nn.init.uniform_(self.dt_proj, -(self.rank**-0.5), self.rank**-0.5)
        with torch.no_grad():
            Δ = torch.empty_like(self.dt_bias).uniform_(log(1e-3), log(1e-1)).exp().clamp(min=1e-4)
            self.dt_bias.copy_(Δ + torch.log(-torch.expm1(-Δ)))  # softplus⁻¹
            self.A_log.copy_(torch.arange(1, self.state_size + 1).log().expand_as(self.A_log))
            self.D.fill_(1.0)

    def forward(self, x: Float[Tensor, "b l c"], traversal: Traversal) -> Float[Tensor, "b l c"]:
        x = self.in_proj(x)
        if self.local_mixing is not None:
            x = self.local_mixing(x, traversal.grid)
        x = F.silu(x)
        y = self.scan(x, traversal)
        return self.out_proj(self.out_norm(y))

    def scan(self, x: Float[Tensor, "b l d"], traversal: Traversal) -> Float[Tensor, "b l d"]:
        """Δ, B and C are per token, so they are computed once, in grid order; only the scan walks the orders."""
        sets = len(self.x_proj)
        projected = F.linear(x, self.x_proj.flatten(0, 1)).unflatten(-1, (sets, -1))
        low_rank, B, C = projected.split([self.rank, self.state_size, self.state_size], dim=-1)
        delta = torch.einsum("blgr,gdr->bgld", low_rank, self.dt_proj)
        B, C = B.transpose(1, 2), C.transpose(1, 2)
        A = -torch.exp(self.A_log)
        if self.merge is None:
            return selective_scan(x, delta, A, B, C, self.D, self.dt_bias, traversal.orders, self.backend)
        own_paths = traversal.orders.unflatten(1, (sets, -1))
        apart = []
        for i in range(sets):
            s = slice(i, i + 1)
            parameters = (delta[:, s], A[s], B[:, s], C[:, s], self.D[s], self.dt_bias[s])
            apart.append(selective_scan(x, *parameters, own_paths[:, i], self.backend))
        return self.merge(torch.cat(apart, dim=-1))
