"""The residual block of Spectral VMamba and VMamba."""

from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.ops.traversal import Traversal


class Block(nn.Module):
    """x = x + mixer(norm(x));  x = x + mlp(norm(x))."""

    def __init__(self, width: int, mixer: nn.Module, mlp_ratio: float, drop_path: nn.Module):
        super().__init__()
        hidden = int(width * mlp_ratio)
        self.mixer_norm = nn.LayerNorm(width)
        self.mixer = mixer
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.drop_path = drop_path

    def forward(self, x: Float[Tensor, "b l c"], traversal: Traversal) -> Float[Tensor, "b l c"]:
        x = x + self.drop_path(self.mixer(self.mixer_norm(x), traversal))
        return x + self.drop_path(self.mlp(self.mlp_norm(x)))
