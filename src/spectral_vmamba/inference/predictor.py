"""A trained classifier with everything needed to use it: `load(checkpoint).predict(images)`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from spectral_vmamba.data.dataset import format_classes
from spectral_vmamba.data.decode import ImageLike, normalize, to_pil
from spectral_vmamba.data.find import NamedImage
from spectral_vmamba.data.loader import Sample, collate, load_sample
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.inference.checkpoint import (
    Checkpoint,
    CheckpointHeader,
    WeightChoice,
    find_checkpoint,
    load_checkpoint,
)
from spectral_vmamba.inference.network import build_from_checkpoint, default_preprocessing
from spectral_vmamba.models import create_model
from spectral_vmamba.utils.devices import resolve_device
from spectral_vmamba.utils.wording import at_least


@dataclass(frozen=True)
class Prediction:
    """The most probable classes in descending order, with their probabilities.

    `without_border` tells that a uniform border around the content of the image was left out.
    """

    classes: tuple[str, ...]
    probabilities: tuple[float, ...]
    without_border: bool = False

    @property
    def label(self) -> str:
        return self.classes[0]


@dataclass(frozen=True, eq=False)
class Predictor:
    """A classifier, its classes and its preprocessing; `header` is that of its checkpoint, if it has one."""

    name: str
    model: nn.Module
    classes: tuple[str, ...]
    preprocessing: Preprocessing
    device: torch.device
    header: CheckpointHeader | None = None

    def predict(self, images: ImageLike | Sequence[ImageLike], top: int = 5, batch_size: int = 32) -> list[Prediction]:
        """Classify one or several images: paths, bytes of files, PIL images, arrays (h, w, 3) or tensors (3, h, w) of
        uint8. Raises ValueError if one cannot be read."""
        several: list[Any] = list(images) if isinstance(images, (list, tuple)) else [images]
        named = (NamedImage(f"image {i}", partial(to_pil, image)) for i, image in enumerate(several))
        predictions = []
        for _, result in self.predict_stream(named, top, batch_size):
            if isinstance(result, ReadError):
                raise ValueError(result.reason)
            predictions.append(result)
        return predictions

    def predict_stream(
        self, images: Iterable[NamedImage], top: int = 5, batch_size: int = 32
    ) -> Iterator[tuple[str, Prediction | ReadError]]:
        """Classify images as they come, `batch_size` at a time; yields (name, prediction or read error) in order."""
        at_least(1, top=top, batch_size=batch_size)
        transform = self.preprocessing.eval_transform()
        numbered = enumerate(images)
        while batch := list(islice(numbered, batch_size)):
            results = [load_sample(image.open, transform, i, image.name) for i, image in batch]
            loaded = collate(results)
            predictions = iter(self.top_classes(self.probabilities(loaded.inputs), top) if loaded.indices else ())
            for (_, image), result in zip(batch, results, strict=True):
                if isinstance(result, Sample):
                    yield image.name, replace(next(predictions), without_border=result.view.without_border)
                else:
                    yield image.name, result

    def probabilities(self, pixels: Shaped[Tensor, "b 3 H W"]) -> Float[Tensor, "b classes"]:
        """Class probabilities of preprocessed pixels, 0 to 255."""
        with torch.inference_mode():
            return self.model.eval()(self.inputs(pixels)).float().softmax(1)

    def inputs(self, pixels: Shaped[Tensor, "b 3 H W"]) -> Float[Tensor, "b 3 H W"]:
        """Normalize preprocessed pixels, 0 to 255, on the model's device."""
        return normalize(pixels.to(self.device), self.preprocessing.mean, self.preprocessing.std)

    def top_classes(self, probabilities: Float[Tensor, "b classes"], top: int) -> list[Prediction]:
        best = probabilities.cpu().topk(min(top, len(self.classes)), dim=1)
        return [
            Prediction(tuple(self.classes[i] for i in indices), tuple(values))
            for indices, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]


def load(checkpoint: str | Path, weights: WeightChoice = "best", device: str = "auto") -> Predictor:
    """Load a classifier; `spectral_vmamba.load` explains the arguments, and loads networks of every kind."""
    return make_predictor(load_checkpoint(find_checkpoint(checkpoint)), weights, device)


def make_predictor(checkpoint: Checkpoint, weights: WeightChoice, device: str) -> Predictor:
    """A predictor from a checkpoint in memory; several predictors can share one."""
    resolved = resolve_device(device)
    header = checkpoint.header
    model = build_from_checkpoint(checkpoint, weights)
    return Predictor(header.model, model.to(resolved).eval(), header.classes, header.preprocessing, resolved, header)


def load_timm(
    name: str, classes: Sequence[str], checkpoint: str | Path | None = None, device: str = "auto"
) -> Predictor:
    """Load any model of timm's registry with its published weights, or with a file of weights (safetensors or a
    state_dict).

    >>> import spectral_vmamba
    >>> from safetensors.torch import save_file
    >>> save_file(spectral_vmamba.create_model("vmamba_nano", num_classes=2).state_dict(), "weights.safetensors")
    >>> spectral_vmamba.load_timm("vmamba_nano", ["cat", "dog"], "weights.safetensors").classes
    ('cat', 'dog')
    """
    resolved = resolve_device(device)
    options: dict[str, Any] = {"checkpoint_path": str(checkpoint)} if checkpoint else {"pretrained": True}
    if checkpoint and not Path(checkpoint).is_file():
        raise FileNotFoundError(f"no weights at {checkpoint}")
    try:
        model = create_model(name, num_classes=len(classes), **options)
    except RuntimeError as error:
        raise ValueError(
            f"{checkpoint or 'the published weights'} do not match {name} with the classes {format_classes(classes)}. "
            f"To use a checkpoint of `spectral-vmamba train`, omit --model. {str(error)[:500]}"
        ) from error
    except OSError as error:
        raise OSError(f"cannot download the weights of {name}; pass a file with --checkpoint. {error}") from error
    preprocessing = default_preprocessing(model)
    return Predictor(name, model.to(resolved).eval(), tuple(classes), preprocessing, resolved)
