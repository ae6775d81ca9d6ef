"""The selective scan as its equations, one token after the other: slow and obvious, differentiated by autograd."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.ops.selective_scan.scan_inputs import ScanInputs


def selective_scan_reference(inputs: ScanInputs) -> Float[Tensor, "b l d"]:
    """y[order_t] += C_t·h_t + D x_t  with  h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t x_t,  Δ = softplus(delta + bias)."""
    dtype, orders = inputs.x.dtype, inputs.orders
    precise = torch.promote_types(dtype, torch.float32)
    tokens, delta, A, B, C, D, delta_bias = (tensor.to(precise) for tensor in inputs.differentiable)
    images, length, channels = tokens.shape
    sets, paths, states = A.shape[0], orders.shape[1], A.shape[2]
    image = torch.arange(images, device=tokens.device)
    merged = torch.zeros_like(tokens)
    for path in range(paths):
        s = path * sets // paths
        h = tokens.new_zeros(images, channels, states)
        for step in range(length):
            t = orders[:, path, step]
            x_t = tokens[image, t]
            Δ_t = F.softplus(delta[image, s, t] + delta_bias[s])
            h = torch.exp(Δ_t[..., None] * A[s]) * h + (Δ_t * x_t)[..., None] * B[image, s, t][:, None, :]
            y_t = (h * C[image, s, t][:, None, :]).sum(-1) + D[s] * x_t
            merged = merged.index_put((image, t), y_t, accumulate=True)
    return merged.to(dtype)
