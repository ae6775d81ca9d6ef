"""A whole pretrained timm network, with its classifier and a map of stride 16."""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.layers import PretrainedStem
from spectral_vmamba.models._timm import timm
from spectral_vmamba.models.stem_weights import find_stem_weights

_FINER_STRIDE = 16


class _WholeNetwork(nn.Module):
    """A timm network from images to its last feature map; `maps` also returns the last map of stride 16."""

    def __init__(self, network: Any):
        super().__init__()
        self.network = network
        strides = [stage["reduction"] for stage in network.feature_info]
        self.finer_stage = len(strides) - 1 - strides[::-1].index(_FINER_STRIDE)
        self.finer_channels: int = network.feature_info[self.finer_stage]["num_chs"]

    def forward(self, images: Tensor) -> Tensor:
        return self.network.forward_features(images)

    def maps(self, images: Tensor) -> list[Tensor]:
        last, finer = self.network.forward_intermediates(images, indices=[self.finer_stage])
        return [*finer, last]


def build_whole_network(name: str) -> PretrainedStem:
    """The frozen network from images to its last feature map. Raises a MissingWeightsError without weights."""
    weights = find_stem_weights(name, "required") or {}
    network: Any = timm.create_model(name).eval()
    network.load_state_dict({key: weights[key] for key in network.state_dict()})
    whole = _WholeNetwork(network)
    return PretrainedStem(whole, network.num_features, finer_channels=(whole.finer_channels,))


def classify_maps(network: PretrainedStem, last: Float[Tensor, "b c h w"]) -> Float[Tensor, "b classes"]:
    """The logits of a whole network's own classifier, from its last map."""
    whole: Any = network.body
    return whole.network.forward_head(last)
