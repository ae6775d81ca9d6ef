"""Random but valid inputs of the selective scan."""

import torch

NAMES = ("x", "delta", "A", "B", "C", "D", "delta_bias")


def scan_inputs(b=2, l=7, d=5, k=4, g=4, n=1, dtype=torch.float64, seed=0):  # noqa: E741
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    tensors = (
        normal(b, l, d),
        normal(b, g, l, d),
        -normal(g, d, n).exp(),
        normal(b, g, l, n),
        normal(b, g, l, n),
        normal(g, d),
        normal(g, d),
    )
    orders = torch.stack([torch.randperm(l, generator=generator) for _ in range(b * k)]) if b * k else torch.empty(0, l)
    return [tensor.to(dtype) for tensor in tensors], orders.view(b, k, l).long()


def leaves(tensors):
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]
