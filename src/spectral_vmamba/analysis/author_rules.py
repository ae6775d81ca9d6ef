"""How authors count the operations of their own models, where that differs from counting all that runs."""

from torch import nn

from spectral_vmamba.models.isotropic import IsotropicBackbone
from spectral_vmamba.models.local_vim import LocalVim
from spectral_vmamba.models.vim import Vim

RULES = {
    "Spectral VMamba": "the stem once, whatever the number of rotations",
    "Vim": "conv, Δ, B and C projections once per block, whatever the number of directions; scan 5·l·d·n + 2·l·d",
    "LocalVim": "as Vim; the channel gate once",
}


def local_mamba_rule(model: IsotropicBackbone, height: int, width: int) -> int:
    """Multiply-adds of Vim and LocalVim as LocalMamba's authors count them: the published figures of both."""
    config = model.config
    d, n, patch = config.width, config.state_size, config.patch_size
    patches = -(-height // patch) * -(-width // patch)
    tokens = patches + (1 if isinstance(model, Vim) else 0)
    inner, rank, kernel = 2 * d, -(-d // 16), 4
    directions = 4 if isinstance(model, LocalVim) else 2
    block = tokens * (d * 2 * inner + inner * d)  # in and out
    block += tokens * inner * (kernel + rank + 2 * n + rank)  # convolution, x_proj, dt_proj: once
    block += directions * (5 * tokens * inner * n + 2 * tokens * inner) + tokens * d
    if isinstance(model, LocalVim):
        block += 2 * inner * (inner // 8)
    stem = patches * patch * patch * _input_channels(model) * d
    return config.depth * block + stem + d * model.num_classes


def _input_channels(model: nn.Module) -> int:
    return next(module.in_channels for module in model.modules() if isinstance(module, nn.Conv2d))
