"""Choose the frame of a network for its training images: what `--frame auto` does."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.loader import Batch, TrainSamples, eval_batches, load_batches, no_readable_image
from spectral_vmamba.data.order import ViewIndex
from spectral_vmamba.data.seeding import FRAME, derive_seed, preserve_generators
from spectral_vmamba.data.transforms import Augmentation, Preprocessing
from spectral_vmamba.models.framing import enter_frame
from spectral_vmamba.models.tokenizer import SpectralTokenizer
from spectral_vmamba.ops.frames import Frame
from spectral_vmamba.ops.turns import rotate_pixels
from spectral_vmamba.training.upright_fit import fit_upright
from spectral_vmamba.utils.extras import require
from spectral_vmamba.utils.progress import Progress, no_progress
from spectral_vmamba.utils.wording import plural

_MOST_IMAGES = 450
_HELD_OUT = 3  # every third image is not learned from
_BATCH = 16
_PIXELS = 16  # per side, of the small images that are compared where there is no frozen stem
_INVERSE_REGULARIZATION = 0.1

Build = Callable[[Frame], Any]
"""Makes the network with a frame."""


@dataclass(frozen=True)
class FrameScore:
    """How a linear classifier does on held-out training images, 0 to 1: its accuracy upright and turned by random
    angles, and the share of images with the same answer in both positions."""

    frame: Frame
    upright: float
    turned: float
    agreement: float

    @property
    def mean(self) -> float:
        return (self.upright + self.turned) / 2


@dataclass(frozen=True)
class FrameChoice:
    """The scores of all candidates, and the number of held-out images they were measured on."""

    scores: tuple[FrameScore, ...]
    images: int

    @property
    def best(self) -> Frame:
        """The frame with the most agreement among those whose accuracy, the mean of both positions, is within one
        standard error of the best; of equals the first, which costs least."""
        best = max(score.mean for score in self.scores)
        error = math.sqrt(best * (1 - best) / self.images)
        return max(
            (score for score in self.scores if score.mean >= best - error), key=lambda each: each.agreement
        ).frame

    def __str__(self) -> str:
        scores = ", ".join(
            f"{score.frame} {score.upright:.1%} / {score.turned:.1%} / {score.agreement:.1%}" for score in self.scores
        )
        images = plural(self.images, "held-out training image")
        return (
            f"frame {self.best}: accuracy of a linear classifier on {images} upright / turned by any angle / agreement "
            f"of both: {scores}"
        )


def choose_frame(
    build: Build,
    dataset: ImageDataset,
    preprocessing: Preprocessing,
    augment: Augmentation,
    seed: int = 0,
    workers: int = 0,
    progress: Progress = no_progress,
) -> FrameChoice:
    """Compare the frames on training images that are held out from a small classifier.

    The classifier is a logistic regression on what the network sees in a frame: the pooled features of its frozen
    stem, or small images. It learns from one augmented view per image, as the network will. `preprocessing` is without
    a frame. Deterministic for a seed.
    """
    generator = np.random.default_rng(derive_seed(FRAME, seed))
    chosen = generator.permutation(len(dataset))[:_MOST_IMAGES]
    held_out, learned = (np.sort(part) for part in np.split(chosen, [max(len(chosen) // _HELD_OUT, 1)]))
    if not len(learned):
        raise ValueError(f"expected at least two training images for the frame auto, got {len(dataset)}")
    probes = _make_probes(build, dataset.subset(learned), preprocessing, seed, workers, progress)

    def batches() -> Iterator[tuple[str, Batch]]:
        samples = TrainSamples(dataset.subset(learned), augment.train_transform(preprocessing), seed)
        keys = [ViewIndex(0, i) for i in range(len(learned))]
        groups = [keys[i : i + _BATCH] for i in range(0, len(keys), _BATCH)]
        yield from (("learned", batch) for batch in load_batches(samples, groups, workers))
        transform = preprocessing.eval_transform()
        yield from (("held out", batch) for batch in eval_batches(dataset.subset(held_out), transform, _BATCH, workers))

    total = sum(-(-len(part) // _BATCH) for part in (learned, held_out))
    with preserve_generators():  # views draw from them
        for part, batch in progress(batches(), "comparing frames", total):
            pixels = {part: batch.inputs}
            if part == "held out":
                angles = generator.uniform(0, 360, len(batch))
                pixels = {"upright": batch.inputs, "turned": _turn_each(batch.inputs, angles)}
            for name, images in pixels.items() if len(batch) else ():
                for probe in probes:
                    probe.add(name, normalize(images, preprocessing.mean, preprocessing.std), batch.labels)
    if "upright" not in probes[0].labels:
        raise no_readable_image(dataset)
    return FrameChoice(tuple(probe.score() for probe in probes), len(torch.cat(probes[0].labels["upright"])))


class _Probe:
    """Collects what the network sees of images in one frame, and scores it."""

    def __init__(self, frame: Frame, features: Callable[[Tensor], Float[Tensor, "b f"]]):
        self.frame: Frame = frame
        self.features = features
        self.inputs: dict[str, list[Tensor]] = {}
        self.labels: dict[str, list[Tensor]] = {}

    def add(self, part: str, images: Float[Tensor, "b 3 H W"], labels: Tensor) -> None:
        with torch.inference_mode():
            self.inputs.setdefault(part, []).append(self.features(images).float().cpu().clone())
        self.labels.setdefault(part, []).append(labels)

    def score(self) -> FrameScore:
        inputs = {part: torch.cat(batches).double().numpy() for part, batches in self.inputs.items()}
        labels = {part: torch.cat(batches).numpy() for part, batches in self.labels.items()}
        mean, std = inputs["learned"].mean(0), inputs["learned"].std(0) + 1e-6
        scaled = {part: (values - mean) / std for part, values in inputs.items()}
        if len(np.unique(labels["learned"])) < 2:  # no classifier can be fitted: everything is of the one class
            upright = turned = np.full_like(labels["upright"], labels["learned"][0])
        else:
            linear = require("sklearn.linear_model", "train")
            classifier = linear.LogisticRegression(C=_INVERSE_REGULARIZATION, max_iter=500)
            classifier.fit(scaled["learned"], labels["learned"])
            upright, turned = (classifier.predict(scaled[part]) for part in ("upright", "turned"))
        comparisons = (upright == labels["upright"], turned == labels["turned"], upright == turned)
        return FrameScore(self.frame, *(float(each.mean()) for each in comparisons))


def _make_probes(
    build: Build, learned: ImageDataset, preprocessing: Preprocessing, seed: int, workers: int, progress: Progress
) -> list[_Probe]:
    """The frames that hold under rotation; upright is learned from the features of a frozen stem."""
    tokenizer = _fixed_tokenizer(build("quarter"))
    if tokenizer is None:
        return [_Probe("quarter", _small_images("quarter")), _Probe("moment", _small_images("moment"))]
    upright = _fixed_tokenizer(build("upright"))
    assert upright is not None
    fit_upright(upright, learned, preprocessing, seed, workers, progress)
    moment = _fixed_tokenizer(build("moment"))
    assert moment is not None
    tokenizers: dict[Frame, SpectralTokenizer] = {"quarter": tokenizer, "moment": moment, "upright": upright}
    return [_Probe(frame, _pooled_features(each)) for frame, each in tokenizers.items()]


def _fixed_tokenizer(model: Any) -> SpectralTokenizer | None:
    tokenizer = getattr(model, "tokenizer", None)
    return tokenizer.eval() if isinstance(tokenizer, SpectralTokenizer) and tokenizer.is_fixed else None


def _pooled_features(tokenizer: SpectralTokenizer) -> Callable[[Tensor], Tensor]:
    device = next(tokenizer.parameters()).device

    def features(images: Tensor) -> Tensor:
        tokens, _, _ = tokenizer.features(images.to(device))
        return torch.cat([tokens.mean(1), tokens.std(1, unbiased=False)], dim=1)

    return features


def _small_images(frame: Frame) -> Callable[[Tensor], Tensor]:
    return lambda images: F.adaptive_avg_pool2d(enter_frame(images, frame).images, _PIXELS).flatten(1)


def _turn_each(pixels: Tensor, angles: np.ndarray) -> Tensor:
    turned = [rotate_pixels(image[None], float(angle), "black") for image, angle in zip(pixels, angles, strict=True)]
    return torch.cat(turned)
