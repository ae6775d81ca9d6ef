"""From pixels to vectors: a network, its preprocessing, and passes of a fixed size."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference.network import default_preprocessing
from spectral_vmamba.inference.predictor import load
from spectral_vmamba.models import create_model, is_spectral, list_models
from spectral_vmamba.models.tokens import GridFeatures
from spectral_vmamba.ops.frames import Pose
from spectral_vmamba.retrieval.feature_kinds import FeatureKind, Features, NetworkFeatures, StemFeatures, WholeFeatures
from spectral_vmamba.utils.devices import resolve_device
from spectral_vmamba.utils.tensor_file import digest_tensors

# The network always sees this many images at once, the last one repeated where needed: convolutions round differently
# for other batch sizes, and the vector of an image must not depend on the other images.
PASS_SIZE = 8


class Embeddings(NamedTuple):
    """`tokens` are in raster order of the original images."""

    vectors: Float[np.ndarray, "n v"]
    tokens: Float[np.ndarray, "n l c"] | None


@dataclass(frozen=True, eq=False)
class Encoder:
    """A network that embeds images, with its preprocessing."""

    name: str
    features: WholeFeatures | StemFeatures | NetworkFeatures
    preprocessing: Preprocessing
    device: torch.device

    def encode(self, pixels: UInt8[Tensor, "b 3 H W"], pose: Pose | None, tokens: bool) -> Embeddings:
        """Embed preprocessed pixels; `pose` is how preprocessing turned the images."""
        slices = [slice(i, i + PASS_SIZE) for i in range(0, len(pixels), PASS_SIZE)]
        passes = [self._encode_pass(pixels[rows], pose and pose.images(rows), tokens) for rows in slices]
        parts = [torch.cat([outputs[part] for outputs in passes]) for part in range(1 + tokens)]
        return Embeddings(parts[0].numpy(), parts[1].half().numpy() if tokens else None)

    def token_layout(self) -> tuple[Int[np.ndarray, "l 2"], int]:
        """Row and column of every token, on a grid over the center square of the image, or with the frames
        moment and upright of its content; channels of a token."""
        size = self.preprocessing.size
        noise = torch.randint(256, (PASS_SIZE, 3, size, size), generator=torch.Generator().manual_seed(0))
        _, maps, grid = self._features(noise.to(torch.uint8), True)
        assert maps is not None
        assert grid is not None
        cells = np.stack(np.divmod(grid.cells().numpy(), grid.width), axis=1)
        return cells.astype(np.int16), maps.shape[1]

    def weights_digest(self) -> str:
        return digest_tensors(self.features.state_dict())

    @property
    def is_quarter_turn_invariant(self) -> bool:
        return self.preprocessing.frame != "none"

    def _features(self, pixels: UInt8[Tensor, "b 3 H W"], with_maps: bool) -> Features:
        with torch.inference_mode():
            inputs = normalize(pixels.to(self.device), self.preprocessing.mean, self.preprocessing.std)
            return self.features(inputs, with_maps)

    def _encode_pass(self, pixels: Tensor, pose: Pose | None, tokens: bool) -> tuple[Tensor, ...]:
        padded = torch.cat([pixels, pixels[-1:].expand(PASS_SIZE - len(pixels), -1, -1, -1)])
        vectors, maps, grid = self._features(padded, tokens)
        vectors = F.normalize(vectors.float(), dim=1)[: len(pixels)].cpu().clone()
        if maps is None or grid is None:
            return (vectors,)
        features = GridFeatures(grid.from_map(maps[: len(pixels)].cpu()), grid, pose)
        return vectors, grid.from_map(features.maps()).clone()


def build_encoder(
    model: str, checkpoint: str | None, image_size: int | None, device: str, features: FeatureKind = "whole"
) -> Encoder:
    """The encoder of a checkpoint; without one, of the pretrained network of a model's stem, whole or cut."""
    resolved = resolve_device(device)
    if checkpoint is None:
        name = model
        network, preprocessing = _whole_network(model) if features == "whole" else _pretrained_stem(model)
    else:
        predictor = load(checkpoint, device=device)
        name, network, preprocessing = predictor.name, NetworkFeatures(predictor.model), predictor.preprocessing
    if image_size is not None:
        preprocessing = replace(preprocessing, size=image_size)
    return Encoder(name, network.to(resolved).eval(), preprocessing, resolved)


def _whole_network(model: str) -> tuple[WholeFeatures, Preprocessing]:
    """The network that the model's stem is cut from. It sees a square of the model's default size."""
    network = _spectral_network(model)
    preprocessing = default_preprocessing(network)
    features = WholeFeatures(network.config.stem.removeprefix("timm:"))
    return features, replace(preprocessing, size=features.disk_size(preprocessing.size), frame="moment")


def _pretrained_stem(model: str) -> tuple[StemFeatures, Preprocessing]:
    network = _spectral_network(model)
    return StemFeatures(network.tokenizer), default_preprocessing(network)


def _spectral_network(model: str) -> Any:
    if not is_spectral(model):
        spectral = ", ".join(filter(is_spectral, list_models()))
        raise ValueError(f"expected a Spectral VMamba ({spectral}) without --checkpoint, got {model!r}")
    network: Any = create_model(model, num_classes=0, stem_weights="required")
    if network.config.stem == "conv":
        raise ValueError(
            f"{model} has no pretrained stem, so its vectors would be random; train it and pass the run with "
            f"--checkpoint, or omit --model to use spectral_vmamba_lite"
        )
    return network
