"""Evaluate on the images themselves: each image is decoded once, and each distinct stem input passes the stem once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.loader import Batch, eval_batches
from spectral_vmamba.features.stem_inputs import digest_stem_inputs
from spectral_vmamba.inference.predictor import Predictor
from spectral_vmamba.models import SpectralTokenizer, SpectralVMamba
from spectral_vmamba.models.tokens import Inputs, Tokens
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.turns import Rotation, rotate_pixels


@dataclass(frozen=True, eq=False)
class PixelEvaluator:
    """Inputs of `predictor`'s network, and of networks with the same tokenizer and preprocessing, from pixels."""

    predictor: Predictor
    dataset: ImageDataset
    workers: int = 0

    def rotated_batches(self, batch_size: int) -> Iterator[tuple[Batch, Callable[[Rotation], Inputs]]]:
        """Yield batches, each with a function that returns the network's input of its rotated images."""
        transform = self.predictor.preprocessing.eval_transform()
        for batch in eval_batches(self.dataset, transform, batch_size, self.workers):
            yield batch, self._inputs_of(batch)

    def _inputs_of(self, batch: Batch) -> Callable[[Rotation], Inputs]:
        model = self.predictor.model

        def images(rotation: Rotation) -> Float[Tensor, "b 3 H W"]:
            return self.predictor.inputs(rotate_pixels(batch.inputs, *rotation))

        if not isinstance(model, SpectralVMamba):
            return images
        views = _TokenizedViews(model.tokenizer)
        return lambda rotation: views.tokenize(images(rotation))


@dataclass(eq=False)
class _TokenizedViews:
    """Features of the views of one batch, by what the stem sees of them."""

    tokenizer: SpectralTokenizer
    features: dict[bytes, Float[Tensor, "l c"]] = field(default_factory=dict)
    grid: Grid | None = None

    def tokenize(self, images: Float[Tensor, "b 3 H W"]) -> Tokens:
        tokenizer, posed = self.tokenizer.eval(), self.tokenizer.stem_input(images)
        digests = digest_stem_inputs(tokenizer, posed)
        if self.grid is None or not self.features.keys() >= set(digests):
            features, self.grid, _ = tokenizer.features(posed)
            self.features |= dict(zip(digests, features, strict=True))
        x = torch.stack([self.features[digest] for digest in digests])
        return Tokens(x, tokenizer.traverse(x, self.grid), None)
