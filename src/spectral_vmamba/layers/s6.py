"""S6: the parameters of selective scans, and the projections of tokens to Δ, B and C."""

from math import log

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from spectral_vmamba.ops.selective_scan import Backend, resolve_backend, selective_scan


class S6(nn.Module):
    """Selective scans with `sets` parameter sets.

    Each set projects the tokens to Δ (of rank `rank`), B and C, and has its own A and D. The sets are assigned to paths
    in consecutive groups (see `selective_scan`).
    """

    def __init__(self, channels: int, rank: int, state_size: int, sets: int, backend: Backend = "auto"):
        super().__init__()
        self.rank, self.state_size = rank, state_size
        self.backend: Backend = resolve_backend(backend)
        self.x_proj = nn.Parameter(torch.empty(sets, rank + 2 * state_size, channels))
        self.dt_proj = nn.Parameter(torch.empty(sets, channels, rank))
        self.dt_bias = nn.Parameter(torch.empty(sets, channels))
        self.A_log = nn.Parameter(torch.empty(sets, channels, state_size))
        self.D = nn.Parameter(torch.empty(sets, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Mamba's initialization: Δ between 1e-3 and 1e-1, A = −1, −2, …, D = 1."""
        nn.init.uniform_(self.x_proj, -(self.x_proj.shape[-1] ** -0.5), self.x_proj.shape[-1] ** -0.5)
        nn.init.uniform_(self.dt_proj, -(self.rank**-0.5), self.rank**-0.5)
        with torch.no_grad():
            Δ = torch.empty_like(self.dt_bias).uniform_(log(1e-3), log(1e-1)).exp().clamp(min=1e-4)
            self.dt_bias.copy_(Δ + torch.log(-torch.expm1(-Δ)))  # softplus⁻¹
            self.A_log.copy_(torch.arange(1, self.state_size + 1).log().expand_as(self.A_log))
            self.D.fill_(1.0)

    def forward(self, x: Float[Tensor, "b l d"], orders: Int[Tensor, "b k l"]) -> Float[Tensor, "b l d"]:
        """The sum of the outputs of all paths, in grid order."""
        delta, A, B, C = self.project(x)
        return selective_scan(x, delta, A, B, C, self.D, self.dt_bias, orders, self.backend)

    def forward_separate(self, x: Float[Tensor, "b l d"], orders: Int[Tensor, "b k l"]) -> list[Float[Tensor, "b l d"]]:
        """For each parameter set, the sum of the outputs of its paths."""
        delta, A, B, C = self.project(x)
        own = orders.unflatten(1, (len(self.D), -1))
        outputs = []
        for i in range(len(self.D)):
            s = slice(i, i + 1)
            parameters = (delta[:, s], A[s], B[:, s], C[:, s], self.D[s], self.dt_bias[s])
            outputs.append(selective_scan(x, *parameters, own[:, i], self.backend))
        return outputs

    def project(self, x: Float[Tensor, "b l d"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Δ (before bias and softplus), A, B and C. They do not depend on the path: computed once, in grid order."""
        sets = len(self.x_proj)
        projected = F.linear(x, self.x_proj.flatten(0, 1)).unflatten(-1, (sets, -1))
        low_rank, B, C = projected.split([self.rank, self.state_size, self.state_size], dim=-1)
        delta = torch.einsum("blgr,gdr->bgld", low_rank, self.dt_proj)
        return delta, -torch.exp(self.A_log), B.transpose(1, 2), C.transpose(1, 2)
