"""Vim and LocalVim as their equations: plain, slow, token after token."""

import torch
import torch.nn.functional as F
from timm.layers.drop import DropPath

from tests.support.plain_scan import plain_scan


def plain_norm(norm, x):
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight


def plain_direction(direction, x, z):
    """One direction of a block; x and z (tokens, channels) in the order of the direction."""
    conv = direction.conv
    tokens = []
    for t in range(len(x)):
        u = conv.bias
        for back in range(min(t, 3) + 1):
            u = u + conv.weight[:, 0, 3 - back] * x[t - back]
        tokens.append(u * torch.sigmoid(u))
    return torch.stack(plain_scan(direction.s6, tokens)) * z * torch.sigmoid(z)


def plain_vim_mixer(mixer, x):
    """x (tokens, channels)."""
    x, z = (x @ mixer.in_proj.weight.T).chunk(2, dim=-1)
    forward, backward = mixer.directions
    y = plain_direction(forward, x, z) + plain_direction(backward, x.flip(0), z.flip(0)).flip(0)
    return y / 2 @ mixer.out_proj.weight.T


def plain_order(name, height, width):
    """The cells in the order of a direction, None where a window extends past the grid."""
    kind = name.removesuffix("_flip")
    if kind == "h":
        order = [(r, c) for r in range(height) for c in range(width)]
    elif kind == "v":
        order = [(r, c) for c in range(width) for r in range(height)]
    else:
        k = int(kind[1:])
        corners = [(top, left) for top in range(0, height, k) for left in range(0, width, k)]
        order = [(top + r, left + c) for top, left in corners for r in range(k) for c in range(k)]
    cells = [r * width + c if r < height and c < width else None for r, c in order]
    return cells[::-1] if name.endswith("_flip") else cells


def plain_local_vim_mixer(mixer, x, height, width):
    """x (tokens, channels), row by row."""
    xz = x @ mixer.in_proj.weight.T
    total = 0
    for name, direction in zip(mixer.names, mixer.directions, strict=True):
        order = plain_order(name, height, width)
        ordered = torch.stack([torch.zeros_like(xz[0]) if cell is None else xz[cell] for cell in order])
        out = plain_direction(direction, *ordered.chunk(2, dim=-1))
        y = torch.stack([out[order.index(cell)] for cell in range(height * width)])
        norm, reduce, select = mixer.gate.norm, mixer.gate.reduce, mixer.gate.select
        mean = F.layer_norm(y, y.shape[-1:], norm.weight, norm.bias).mean(0)
        summary = F.gelu(reduce.weight @ mean + reduce.bias)
        total = total + y * torch.sigmoid(select.weight @ summary + select.bias)
    return total @ mixer.out_proj.weight.T


def plain_rotary(x, height, width):
    """The rotary embedding on pairs of channels as complex numbers; x (…, tokens, channels), row by row."""
    quarter = x.shape[-1] // 4
    factors = torch.empty(height * width, 2 * quarter, dtype=torch.complex128)
    for cell in range(height * width):
        row, column = cell // width * 14 / height, cell % width * 14 / width
        for i in range(quarter):
            frequency = 10000 ** (-2 * i / (2 * quarter))
            factors[cell, i] = torch.exp(1j * torch.tensor(row * frequency, dtype=torch.float64))
            factors[cell, quarter + i] = torch.exp(1j * torch.tensor(column * frequency, dtype=torch.float64))
    pairs = torch.complex(x[..., 0::2].contiguous(), x[..., 1::2].contiguous()) * factors
    return torch.view_as_real(pairs).flatten(-2)


def published_blocks(model, x, grid, rate, rotate=lambda x: x):
    """The blocks, the final addition and the norm in the published form: residual and mixer output are passed on
    separately, and the drop path rates are shifted by one block."""
    shifted = [0.0, *torch.linspace(0, rate, len(model.blocks)).tolist()]
    hidden, residual = x, None
    for block, drop in zip(model.blocks, shifted, strict=False):
        hidden = rotate(hidden)
        residual = hidden if residual is None else rotate(residual) + DropPath(drop).train()(hidden)
        hidden = block.mixer(plain_norm(block.norm, residual), grid)
    return plain_norm(model.norm, residual + DropPath(rate).train()(hidden))
