"""VMamba as its equations: plain, slow, token after token."""

import torch
import torch.nn.functional as F

from tests.support.plain_scan import plain_scan


def plain_block(block, x, height, width):
    """x (tokens, channels) of one image, row by row."""
    mixer = block.mixer
    u = F.linear(F.layer_norm(x, x.shape[-1:], block.mixer_norm.weight, block.mixer_norm.bias), mixer.in_proj.weight)
    maps = u.T.reshape(1, -1, height, width)
    maps = F.conv2d(maps, mixer.local_mixing.conv.weight, padding=1, groups=maps.shape[1])
    u = F.silu(maps)[0].flatten(1).T
    rows = [r * width + c for r in range(height) for c in range(width)]
    columns = [r * width + c for c in range(width) for r in range(height)]
    merged = torch.zeros_like(u)
    for i, order in enumerate((rows, columns, rows[::-1], columns[::-1])):
        outputs = dict(zip(order, plain_scan(mixer.s6, [u[token] for token in order], i), strict=True))
        merged = merged + torch.stack([outputs[token] for token in range(len(order))])
    y = F.layer_norm(merged, merged.shape[-1:], mixer.out_norm.weight, mixer.out_norm.bias)
    x = x + F.linear(y, mixer.out_proj.weight)
    z = F.layer_norm(x, x.shape[-1:], block.mlp_norm.weight, block.mlp_norm.bias)
    z = F.linear(F.gelu(F.linear(z, block.mlp[0].weight, block.mlp[0].bias)), block.mlp[2].weight, block.mlp[2].bias)
    return x + z


def plain_channel_norm(maps, norm):
    return F.layer_norm(maps.movedim(1, -1), (maps.shape[1],), norm.weight, norm.bias).movedim(-1, 1)


def plain_network(model, image):
    """The logits of one image (1, 3, H, W)."""
    first, first_norm, _, second, second_norm = model.tokenizer.stem
    maps = F.conv2d(image, first.weight, first.bias, stride=2, padding=1)
    maps = F.gelu(plain_channel_norm(maps, first_norm))
    maps = plain_channel_norm(F.conv2d(maps, second.weight, second.bias, stride=2, padding=1), second_norm)
    for stage in model.stages:
        if stage.downsample is not None:
            conv, norm = stage.downsample.conv, stage.downsample.norm
            maps = plain_channel_norm(F.conv2d(maps, conv.weight, conv.bias, stride=2, padding=1), norm)
        height, width = maps.shape[-2:]
        for block in stage.blocks:
            tokens = plain_block(block, maps[0].flatten(1).T, height, width)
            maps = tokens.T.reshape(1, -1, height, width)
    tokens = plain_channel_norm(maps, model.norm)[0].flatten(1).T
    return model.head.weight @ tokens.mean(0) + model.head.bias
