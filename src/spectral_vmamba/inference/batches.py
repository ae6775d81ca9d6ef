"""Predictions for a stream of images, some of which may be broken."""

from collections.abc import Iterable, Iterator

import torch

from spectral_vmamba.data.decode import decode_image
from spectral_vmamba.inference.predictor import Prediction, Predictor


def predicted(
    predictor: Predictor, images: Iterable[tuple[str, str | bytes | Exception]], top: int, batch_size: int
) -> Iterator[tuple[str, Prediction | Exception]]:
    """In the order in which they come, a batch at a time; errors are handed on in place of predictions."""
    view = predictor.preprocessing.pixels()
    waiting: list[tuple[str, torch.Tensor | Exception]] = []
    for name, image in images:
        waiting.append((name, _seen(view, name, image)))
        if len(waiting) == batch_size:
            yield from _answered(predictor, waiting, top)
            waiting = []
    yield from _answered(predictor, waiting, top)


def _seen(view, name: str, image: str | bytes | Exception) -> torch.Tensor | Exception:
    if isinstance(image, Exception):
        return image
    try:
        return view(decode_image(image, name=name))
    except (ValueError, OSError) as error:
        return error


def _answered(
    predictor: Predictor, batch: list[tuple[str, torch.Tensor | Exception]], top: int
) -> Iterator[tuple[str, Prediction | Exception]]:
    pixels = [seen for _, seen in batch if isinstance(seen, torch.Tensor)]
    predictions = iter(predictor.named(predictor.probabilities(torch.stack(pixels)), top) if pixels else ())
    for name, seen in batch:
        yield name, seen if isinstance(seen, Exception) else next(predictions)
