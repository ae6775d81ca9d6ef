"""The symmetric normalized Laplacian."""

import torch
from jaxtyping import Float
from torch import Tensor


def normalized_laplacian(
    affinity: Float[Tensor, "b l l"],
) -> tuple[Float[Tensor, "b l l"], Float[Tensor, "b l"]]:
    """L = I − D^(−1/2) W D^(−1/2), and its known null vector, D^(1/2)·1 scaled to length one."""
    degree = affinity.sum(-1)
    root = degree.sqrt()
    inverse_root = torch.where(degree > 0, 1 / root, 0.0)
    identity = torch.eye(affinity.shape[-1], dtype=affinity.dtype, device=affinity.device)
    laplacian = identity - inverse_root[:, :, None] * affinity * inverse_root[:, None, :]
    norm = root.norm(dim=-1, keepdim=True)
    return laplacian, root / torch.where(norm > 0, norm, 1.0)
