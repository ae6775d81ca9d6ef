"""Rules by which authors count the operations of their models, where they do not count every layer as it runs."""

from collections.abc import Iterable
from typing import Any, cast

from spectral_vmamba.models.isotropic import IsotropicBackbone

RULES = {
    "Spectral VMamba": "the stem once, regardless of the number of rotations",
    "Vim": "conv, Δ, B and C projections once per block, regardless of the number of directions; scan 5·l·d·n + 2·l·d",
    "LocalVim": "as Vim; the channel gate once",
}


def local_mamba_rule(model: IsotropicBackbone, height: int, width: int) -> int:
    """Count the multiply-adds of Vim or LocalVim by the rule of LocalMamba's authors, which gives the published
    figures of both."""
    d, patch = model.config.width, model.config.patch_size
    patches = -(-height // patch) * -(-width // patch)
    tokens = patches + (model.cls_token is not None)
    blocks = sum(_block(block.mixer, d, tokens) for block in cast(Iterable[Any], model.blocks))
    return blocks + patches * patch * patch * model.in_chans * d + d * model.num_classes


def _block(mixer: Any, d: int, tokens: int) -> int:
    """Count one block. `mixer` is a DirectionalMixer, with or without a channel gate."""
    inner, conv, s6 = mixer.out_proj.in_features, mixer.directions[0].conv, mixer.directions[0].s6
    total = tokens * (d * mixer.in_proj.out_features + inner * d + d)  # in, out and norm
    total += (
        tokens * inner * (conv.kernel_size[0] + 2 * s6.rank + 2 * s6.state_size)
    )  # conv, x_proj, dt_proj: counted once
    total += len(mixer.directions) * (5 * tokens * inner * s6.state_size + 2 * tokens * inner)
    gate = getattr(mixer, "gate", None)
    return total + (2 * inner * gate.reduce.out_features if gate is not None else 0)
