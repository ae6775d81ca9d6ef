"""Random eigenpairs with given eigenvalues."""

import torch

TOKENS = 16


def random_eigenpairs(seed, values):
    """Orthonormal vectors orthogonal to a positive trivial one, with the given eigenvalues."""
    generator = torch.Generator().manual_seed(seed)
    trivial = torch.rand(TOKENS, generator=generator).double() + 0.5
    trivial = trivial / trivial.norm()
    frame = torch.cat([trivial[:, None], torch.randn(TOKENS, len(values), generator=generator).double()], 1)
    vectors = torch.linalg.qr(frame).Q.T[1:]
    content = torch.rand(TOKENS, generator=generator).double()
    return torch.tensor(values).double(), vectors, trivial, content
