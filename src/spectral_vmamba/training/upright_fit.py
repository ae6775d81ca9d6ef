"""Learn which way is up from the training images, for the frame "upright"."""

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.loader import eval_batches, no_readable_image
from spectral_vmamba.data.seeding import UPRIGHT, derive_seed
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.models.tokenizer import SpectralTokenizer
from spectral_vmamba.models.upright import TURNS, best_rotations, directions, score_inputs
from spectral_vmamba.training.run_config import RunConfig
from spectral_vmamba.training.setup import Surroundings
from spectral_vmamba.utils.extras import require
from spectral_vmamba.utils.progress import Progress, no_progress

_MOST_IMAGES = 1500
_HELD_OUT = 6  # every sixth image is not learned from
_BATCH = 16
_NEAR_DEGREES = 10.0
# Chosen on Imagenette, 128 px: learned from 1,500 images, 70 % of 400 others, turned by random angles, were put upright
# within 10°. With a decay of 0.1 or 1: 67 and 69 %; with a concentration of 40 or 100: 69 and 70 %. The 400 images are
# those of this choice; the standard error is 2 %.
_CONCENTRATION = 60.0
_DECAY = 0.4
_ITERATIONS = 60
_FEW_UPRIGHT = 0.5  # below this share, the frame upright is doubtful


def learn_upright(
    tokenizer: object,
    images: ImageDataset,
    preprocessing: Preprocessing,
    config: RunConfig,
    surroundings: Surroundings,
) -> None:
    """Fit the score of the frame upright, unless the network has another frame or a checkpoint contained the score."""
    if not isinstance(tokenizer, SpectralTokenizer) or tokenizer.upright is None or tokenizer.upright.is_fitted:
        return
    reporter, workers = surroundings.reporter, surroundings.workers(config)
    share = fit_upright(tokenizer, images, preprocessing, config.seed, workers, reporter.track)
    # Every process has fitted it on the same images; other processors may round differently.
    require("accelerate.utils", "train").broadcast(tokenizer.upright.weight.data)
    note = f"learned what is up: {share:.0%} of held-out training images are put upright within 10°"
    poor = "; these images may have no upright position, for which the frame moment is better"
    reporter.note(note + (poor if share < _FEW_UPRIGHT else ""))


def fit_upright(
    tokenizer: SpectralTokenizer,
    dataset: ImageDataset,
    preprocessing: Preprocessing,
    seed: int = 0,
    workers: int = 0,
    progress: Progress = no_progress,
) -> float:
    """Fit the tokenizer's score on images that are upright, in place, without labels.

    Returns the share of held-out images that it puts upright within 10°. Deterministic for a seed.
    """
    generator = np.random.default_rng(derive_seed(UPRIGHT, seed))
    chosen = dataset.subset(np.sort(generator.permutation(len(dataset))[:_MOST_IMAGES]))
    first = generator.uniform(-0.5, 0.5, len(chosen)) * (360 / TURNS)
    inputs, degrees = _score_inputs(
        tokenizer, chosen, preprocessing, torch.from_numpy(first).float(), workers, progress
    )
    order = torch.from_numpy(generator.permutation(len(inputs)))
    held_out = order[: max(len(order) // _HELD_OUT, 1)]
    learned = order[len(held_out) :] if len(order) > 1 else order
    weight = fit_linear_score(inputs[learned], degrees[learned])
    score = tokenizer.upright
    assert score is not None
    with torch.no_grad():
        score.weight.copy_(weight.view_as(score.weight))
    return _share_upright(inputs[held_out] @ weight, degrees[held_out])


def fit_linear_score(inputs: Float[Tensor, "n k f"], degrees: Float[Tensor, "n k"]) -> Float[Tensor, "f"]:
    """Weights of a softmax over the copies of an image, which prefers those that are nearly upright.

    `degrees` are the angles of the copies. The target is a bell curve around 0°, so that angles between the copies of
    an image are known, too. With the decay of the weights the problem is convex: there is nothing to draw.
    """
    target = F.normalize(torch.exp(_CONCENTRATION * (torch.cos(torch.deg2rad(degrees)) - 1)), p=1, dim=1)
    scale = inputs.std((0, 1), correction=0) + 1e-3
    # Softmax ignores what all copies share: each image is centered at its own mean.
    scaled = (inputs - inputs.mean(1, keepdim=True)) / scale
    weight = torch.zeros(inputs.shape[-1], requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(scaled @ weight, target) + _DECAY * weight.square().sum()
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(loss)  # pyright: ignore[reportArgumentType]
    return weight.detach() / scale


def _score_inputs(
    tokenizer: SpectralTokenizer,
    dataset: ImageDataset,
    preprocessing: Preprocessing,
    first: Float[Tensor, "n"],
    workers: int,
    progress: Progress,
) -> tuple[Float[Tensor, "n k f"], Float[Tensor, "n k"]]:
    """What the score sees of the readable images, and the angles of their copies."""
    device = next(tokenizer.parameters()).device
    transform = replace(preprocessing, frame="none").eval_transform()  # the quarter frame would hide what is up
    inputs, indices = [], []
    for batch in progress(eval_batches(dataset, transform, _BATCH, workers), "learning what is up", _batches(dataset)):
        if not len(batch):
            continue
        images = normalize(batch.inputs.to(device), preprocessing.mean, preprocessing.std)
        with torch.inference_mode():
            start = directions(first[batch.indices].to(device))
            regions = score_inputs(images, start, tokenizer.rfn.bare_features)
        inputs.append(regions.flatten(2).float().cpu().clone())
        indices += batch.indices
    if not inputs:
        raise no_readable_image(dataset)
    return torch.cat(inputs), first[indices][:, None] + torch.arange(TURNS) * (360 / TURNS)


def _batches(dataset: ImageDataset) -> int:
    return -(-len(dataset) // _BATCH)


def _share_upright(scores: Float[Tensor, "n k"], degrees: Float[Tensor, "n k"]) -> float:
    """The share of images whose best rotation is near 0°."""
    cos, sin = best_rotations(scores, directions(degrees[:, 0])).unbind(1)
    return float((torch.rad2deg(torch.atan2(sin, cos)).abs() <= _NEAR_DEGREES).float().mean())
