"""A whole pretrained timm network without its classifier."""

from torch import nn

from spectral_vmamba.layers import FrozenStem
from spectral_vmamba.models._timm import timm
from spectral_vmamba.models.stem_weights import find_stem_weights


def build_whole_network(name: str) -> FrozenStem:
    """The frozen network from images to its last feature map. Raises a MissingWeightsError without weights."""
    weights = find_stem_weights(name, "required") or {}
    network: nn.Module = timm.create_model(name, num_classes=0, global_pool="").eval()
    network.load_state_dict({key: weights[key] for key in network.state_dict()})
    return FrozenStem(network, int(network.num_features))  # pyright: ignore[reportArgumentType]
