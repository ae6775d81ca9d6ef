"""The residual block."""

import torch
from torch import nn

from spectral_vmamba.layers import Block, S6Mixer
from tests.support.traversals import random_tokens


def test_a_block_adds_mixer_and_mlp():
    mixer = S6Mixer(16, 8)
    block = Block(16, mixer, 4.0, nn.Identity()).double()
    x, traversal = random_tokens()
    middle = x + mixer(block.mixer_norm(x), traversal)
    assert torch.equal(block(x, traversal), middle + block.mlp(block.mlp_norm(middle)))
