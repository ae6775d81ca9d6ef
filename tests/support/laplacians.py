"""Normalized Laplacians of connected and disconnected graphs."""

import torch

from spectral_vmamba.ops.spectral import affinity, normalized_laplacian


def feature_laplacian(features, neighbors=5):
    return normalized_laplacian(affinity(features.double(), neighbors))


def disconnected_laplacian(components, size, identical=False):
    blocks = [torch.rand(size, size, dtype=torch.float64) for _ in range(1 if identical else components)]
    weights = torch.block_diag(*(blocks * (components if identical else 1)))
    weights = (weights + weights.T).fill_diagonal_(0)
    return normalized_laplacian(weights[None])
