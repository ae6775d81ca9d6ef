"""A whole pretrained timm network without its classifier."""

from typing import Any

from torch import Tensor, nn

from spectral_vmamba.layers import FrozenStem
from spectral_vmamba.models._timm import timm
from spectral_vmamba.models.stem_weights import find_stem_weights

_MIDDLE_STRIDE = 16


def build_whole_network(name: str) -> FrozenStem:
    """The frozen network from images to its last feature map; `forward_maps` also returns its last map of stride 16.

    Raises a MissingWeightsError without weights.
    """
    weights = find_stem_weights(name, "required") or {}
    network: Any = timm.create_model(name, num_classes=0, global_pool="").eval()
    network.load_state_dict({key: weights[key] for key in network.state_dict()})
    middle = [i for i, info in enumerate(network.feature_info) if info["reduction"] == _MIDDLE_STRIDE][-1]
    channels = (network.feature_info[middle]["num_chs"],)
    return FrozenStem(_TwoMaps(network, middle), int(network.num_features), finer_channels=channels)


class _TwoMaps(nn.Module):
    def __init__(self, network: Any, middle: int):
        super().__init__()
        self.network = network
        self.middle = middle

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images)

    def maps(self, images: Tensor) -> list[Tensor]:
        last, (middle,) = self.network.forward_intermediates(images, [self.middle])
        return [middle, last]
