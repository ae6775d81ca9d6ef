"""All eigenvectors by `torch.linalg.eigh`: the reference solver, and the last resort of the others."""

import torch
from jaxtyping import Float
from torch import Tensor


def dense_eigenvectors(
    laplacian: Float[Tensor, "b l l"], trivial: Float[Tensor, "b l"], count: int
) -> Float[Tensor, "b m l"]:
    """The trivial eigenvector is lifted above the spectrum, which ends at 2."""
    lifted = laplacian + 3 * trivial[:, :, None] * trivial[:, None, :]
    return torch.linalg.eigh(lifted).eigenvectors.mT[:, :count].contiguous()
