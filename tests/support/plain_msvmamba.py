"""MSVMamba as its equations: plain, slow, token after token."""

import torch
import torch.nn.functional as F

from tests.support.plain_scan import plain_scan


def plain_norm(x, norm):
    deviation = x - x.mean(-1, keepdim=True)
    return deviation / (deviation.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def bilinear_weights(new, old):
    """Return (new, old) weights of linear interpolation between cell centers, constant beyond the outermost ones."""
    weights = torch.zeros(new, old, dtype=torch.float64)
    for i in range(new):
        place = min(max((i + 0.5) * old / new - 0.5, 0.0), old - 1.0)
        below = int(place)
        weights[i, below] += 1 - (place - below)
        weights[i, min(below + 1, old - 1)] += place - below
    return weights


def plain_mixer(mixer, x, height, width):
    inner = mixer.out_proj.in_features
    projected = x @ mixer.in_proj.weight.T
    maps, gate = projected[:, :inner].T.reshape(1, inner, height, width), projected[:, inner:]
    fine = F.silu(F.conv2d(maps, mixer.fine_conv.weight, mixer.fine_conv.bias, padding=1, groups=inner))[0]
    kernel, bias = mixer.coarse_conv.weight, mixer.coarse_conv.bias
    coarse = F.silu(F.conv2d(maps, kernel, bias, stride=2, padding=3, groups=inner))[0]
    h1, w1 = (height + 1) // 2, (width + 1) // 2
    assert coarse.shape[1:] == (h1, w1)
    by_row = [(r, c) for r in range(h1) for c in range(w1)]
    by_column = [(r, c) for c in range(w1) for r in range(h1)]
    visited = by_row[::-1] + by_column + by_column[::-1]
    added = {cell: 0 for cell in by_row}
    for cell, y in zip(visited, plain_scan(mixer.coarse_scan, [coarse[:, r, c] for r, c in visited]), strict=True):
        added[cell] = added[cell] + plain_norm(y, mixer.out_norm)
    coarse = torch.stack([added[cell] for cell in by_row]).reshape(h1, w1, inner)
    coarse = torch.einsum("hr,wc,rcd->hwd", bilinear_weights(height, h1), bilinear_weights(width, w1), coarse)
    cells = [(r, c) for r in range(height) for c in range(width)]
    fine = torch.stack(plain_scan(mixer.fine_scan, [fine[:, r, c] for r, c in cells]))
    y = plain_norm(fine, mixer.out_norm) + coarse.reshape(-1, inner)
    weights = mixer.excite.expand.weight @ F.relu(mixer.excite.squeeze.weight @ y.mean(0))
    return (y / (1 + torch.exp(-weights)) * F.silu(gate)) @ mixer.out_proj.weight.T


def plain_ffn(ffn, x, height, width):
    t = x @ ffn.widen.weight[:, :, 0, 0].T + ffn.widen.bias
    maps = t.T.reshape(1, -1, height, width)
    maps = F.conv2d(maps, ffn.depthwise.weight, ffn.depthwise.bias, padding=1, groups=maps.shape[1])
    t = t + maps[0].flatten(1).T
    return (t * (1 + torch.erf(t / 2**0.5)) / 2) @ ffn.narrow.weight[:, :, 0, 0].T + ffn.narrow.bias


def plain_block(block, x, height, width):
    """x (tokens, channels) of one image, row by row."""
    x = x + plain_mixer(block.mixer, plain_norm(x, block.mixer_norm), height, width)
    return x + plain_ffn(block.ffn, plain_norm(x, block.ffn_norm), height, width)


def plain_merging(merging, x):
    """x (b, height, width, c)."""
    batch, height, width, channels = x.shape
    padded = torch.zeros(batch, height + 1, width + 1, channels).to(x)
    padded[:, :height, :width] = x
    rows = []
    for r in range(0, height, 2):
        cells = []
        for c in range(0, width, 2):
            phases = [padded[:, r, c], padded[:, r + 1, c], padded[:, r, c + 1], padded[:, r + 1, c + 1]]
            cells.append(plain_norm(torch.cat(phases, -1), merging.norm) @ merging.reduction.weight.T)
        rows.append(torch.stack(cells, 1))
    return torch.stack(rows, 1)


def plain_network(model, images):
    """The logits of images (b, 3, H, W) of whole patches."""
    conv, norm = model.tokenizer.stem
    maps = plain_norm(F.conv2d(images, conv.weight, conv.bias, stride=4).permute(0, 2, 3, 1), norm)
    for stage in model.stages:
        if stage.downsample is not None:
            maps = plain_merging(stage.downsample, maps)
        height, width = maps.shape[1:3]
        for block in stage.blocks:
            tokens = [plain_block(block, image, height, width) for image in maps.flatten(1, 2)]
            maps = torch.stack(tokens).unflatten(1, (height, width))
    return plain_norm(maps.flatten(1, 2), model.norm).mean(1) @ model.head.weight.T + model.head.bias
