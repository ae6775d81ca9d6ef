"""A trained classifier with all it needs to be used: `load(checkpoint).predict(images)`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Shaped
from PIL import Image
from torch import Tensor, nn

from spectral_vmamba.data.dataset import listed
from spectral_vmamba.data.decode import decode_image, normalize
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference.checkpoint import checkpoint_path, load_checkpoint
from spectral_vmamba.inference.network import build_model, preprocessing_of
from spectral_vmamba.models import create_model
from spectral_vmamba.models.variants import FAMILIES
from spectral_vmamba.training.learner import load_weights
from spectral_vmamba.training.train_config import TrainConfig

ImageLike = str | Path | bytes | Image.Image | np.ndarray | Tensor
Weights = Literal["best", "ema", "raw"]


@dataclass(frozen=True)
class Prediction:
    """The likeliest classes, likeliest first, with their probabilities."""

    classes: tuple[str, ...]
    probabilities: tuple[float, ...]

    @property
    def label(self) -> str:
        return self.classes[0]


@dataclass(frozen=True, eq=False)
class Predictor:
    name: str
    model: nn.Module
    classes: tuple[str, ...]
    preprocessing: Preprocessing
    device: torch.device
    facts: dict[str, Any] = field(default_factory=dict)

    def predict(self, images: ImageLike | Sequence[ImageLike], top: int = 5, batch_size: int = 32) -> list[Prediction]:
        """For files, bytes of files, PIL images, arrays (h, w, 3) or tensors (3, h, w) of 0 to 255; one or many."""
        if top < 1 or batch_size < 1:
            raise ValueError(f"expected top and batch_size of at least 1, got {top} and {batch_size}")
        many: list[Any] = list(images) if isinstance(images, (list, tuple)) else [images]
        view = self.preprocessing.pixels()
        found: list[Prediction] = []
        for start in range(0, len(many), batch_size):
            pixels = torch.stack([view(to_pil(each)) for each in many[start : start + batch_size]])
            found += self.named(self.probabilities(pixels), top)
        return found

    def probabilities(self, pixels: Shaped[Tensor, "b 3 H W"]) -> Float[Tensor, "b classes"]:
        """Of what the network sees, 0 to 255."""
        with torch.inference_mode():
            return self.model.eval()(self.inputs(pixels)).float().softmax(1)

    def inputs(self, pixels: Shaped[Tensor, "b 3 H W"]) -> Float[Tensor, "b 3 H W"]:
        return normalize(pixels.to(self.device), self.preprocessing.mean, self.preprocessing.std)

    def named(self, probabilities: Float[Tensor, "b classes"], top: int) -> list[Prediction]:
        best = probabilities.cpu().topk(min(top, len(self.classes)), dim=1)
        return [
            Prediction(tuple(self.classes[i] for i in indices), tuple(values))
            for indices, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]


def load(checkpoint: str | Path, weights: Weights = "best", device: str = "cpu") -> Predictor:
    """A checkpoint of `fit`, or the folder of its run (then the best one).

    `weights` are the averaged (ema) or the plain (raw) ones; best is what validated better.
    """
    path = checkpoint_path(checkpoint)
    stored = load_checkpoint(path)
    facts = stored.facts
    config = TrainConfig.from_dict(facts["config"])
    chosen = facts["best"].get("weights", "raw") if weights == "best" else weights
    if not stored.part(chosen):
        raise ValueError(f"{path} has no {chosen} weights; the run was made without averaging")
    model = build_model(config.model, _without_search(config.model, config.model_options), facts["classes"])
    load_weights(model, stored.part(chosen))
    preprocessing = Preprocessing.from_dict(facts["preprocessing"])
    return Predictor(
        config.model, model.to(device).eval(), tuple(facts["classes"]), preprocessing, torch.device(device), facts
    )


def load_timm(
    name: str, classes: Sequence[str], checkpoint: str | Path | None = None, device: str = "cpu"
) -> Predictor:
    """Any model of timm's registry, with timm's own weights or a file of them (safetensors, or a state_dict)."""
    options: dict[str, Any] = {"checkpoint_path": str(checkpoint)} if checkpoint else {"pretrained": True}
    if checkpoint and not Path(checkpoint).is_file():
        raise FileNotFoundError(f"no weights at {checkpoint}")
    try:
        model = create_model(name, num_classes=len(classes), **options)
    except RuntimeError as error:
        raise ValueError(
            f"{checkpoint or 'the published weights'} do not fit {name} with the classes {listed(classes)}. "
            f"A checkpoint of a run of ours is named without --model. {str(error)[:500]}"
        ) from error
    except OSError as error:
        raise OSError(f"cannot fetch the weights of {name}; name a file of them by --checkpoint. {error}") from error
    return Predictor(name, model.to(device).eval(), tuple(classes), preprocessing_of(model), torch.device(device), {})


def to_pil(image: ImageLike) -> Image.Image:
    if isinstance(image, (str, Path, bytes)):
        return decode_image(image)
    if isinstance(image, Image.Image):
        return image.convert("RGB")
    if isinstance(image, Tensor):
        if image.dtype != torch.uint8 or image.ndim != 3:
            raise ValueError(f"expected a tensor (3, h, w) of uint8, got {image.dtype} {tuple(image.shape)}")
        image = np.moveaxis(image.detach().cpu().numpy(), 0, -1)
    if image.dtype != np.uint8 or image.ndim not in (2, 3):
        raise ValueError(
            f"expected one image of uint8 values, (h, w), (h, w, 3) as an array or (3, h, w) as a tensor; got "
            f"{image.dtype} {image.shape}"
        )
    return Image.fromarray(image).convert("RGB")


def _without_search(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The checkpoint holds all weights, a pretrained stem's too: none have to be looked for."""
    kept = {key: value for key, value in options.items() if key not in ("pretrained", "stem_weights")}
    return {**kept, "stem_weights": "none"} if name in FAMILIES["Spectral VMamba"] else kept
