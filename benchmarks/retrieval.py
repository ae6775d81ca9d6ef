"""Measure image search: the features of a whole pretrained network, over turns or plain, and those of its stem.

    OMP_NUM_THREADS=1 python benchmarks/retrieval.py aid_128.npz imagenette_128.npz cifar10_test.npz

The collection is the first 2,000 validation or test images, at 128 px. Some of them are queries, rotated by random
angles with bilinear interpolation and black corners. Each image is left out of its own list of neighbors. "plain" is
the usual baseline: one pass of the whole network over the whole image, pooled. "centered": the mean vector of the
collection is subtracted. With --poolings, compares poolings of the stem's tokens on 1,000 training images instead.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.loader import eval_batches
from spectral_vmamba.data.sources import DataSplit, read_evaluation_part
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.data.views import pose_of
from spectral_vmamba.models import create_model
from spectral_vmamba.models.whole_network import build_whole_network
from spectral_vmamba.ops.turns import rotate_pixels
from spectral_vmamba.retrieval.encoder import Encoder, build_encoder

MODEL, NETWORK, NEIGHBORS = "spectral_vmamba_lite", "tf_efficientnet_lite0", 10
SIZE, IMAGES = 128, 2000
FEATURES = ("plain", "stem", "whole")


class Vectors(NamedTuple):
    """Of the collection and of the rotated queries, whose indices are `queries`; CPU time per image."""

    collection: np.ndarray
    rotated: np.ndarray
    queries: np.ndarray
    milliseconds: float


def nearest_neighbors(similarities: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Return the indices of the most similar images for each row; `queries` are the rows' own indices, left out."""
    similarities = similarities.copy()
    similarities[np.arange(len(queries)), queries] = -2  # less than any cosine
    return np.argsort(-similarities, axis=1, kind="stable")[:, :NEIGHBORS]


def same_class_share(labels: np.ndarray, neighbors: np.ndarray, queries: np.ndarray) -> float:
    """Return the share of neighbors that have the class of their query."""
    return float((labels[neighbors] == labels[queries][:, None]).mean())


def compare_poolings(images: ImageDataset, encoder: Encoder) -> None:
    tokenizer = create_model(MODEL).eval().tokenizer
    preprocessing = encoder.preprocessing
    with torch.inference_mode():
        batches = eval_batches(images, preprocessing.eval_transform(), 64, workers=0)
        inputs = (normalize(batch.inputs, preprocessing.mean, preprocessing.std) for batch in batches)
        x = torch.cat([tokenizer.features(batch)[0].clone() for batch in inputs])
    mean, maximum, std = x.mean(1), x.amax(1), x.std(1, unbiased=False)
    poolings = {
        "mean": [mean],
        "mean and max, normalized together": [torch.cat([mean, maximum], 1)],
        "mean and max, each normalized": [mean, maximum],
        "mean and std, normalized together": [torch.cat([mean, std], 1)],
        "mean and std, each normalized": [mean, std],
    }
    everything = np.arange(len(images))
    for name, parts in poolings.items():
        vectors = F.normalize(torch.cat([F.normalize(part, dim=1) for part in parts], 1), dim=1).numpy()
        neighbors = nearest_neighbors(vectors @ vectors.T, everything)
        print(f"| {name} | {same_class_share(images.labels, neighbors, everything):.1%} |")


def build_embedding(features: str) -> Callable[[list[Image.Image]], np.ndarray]:
    """Return a function from images to vectors of length 1."""
    if features == "plain":
        network, transform = build_whole_network(NETWORK), Preprocessing(SIZE, (0.5,) * 3, (0.5,) * 3).eval_transform()

        def embed_plainly(images: list[Image.Image]) -> np.ndarray:
            pixels = torch.stack([transform(image).pixels for image in images])
            with torch.inference_mode():
                maps = [network(normalize(batch, (0.5,) * 3, (0.5,) * 3)) for batch in pixels.split(64)]
                return F.normalize(torch.cat([each.mean((-2, -1)) for each in maps]), dim=1).numpy()

        return embed_plainly
    encoder = build_encoder(MODEL, None, None, "cpu", "whole" if features == "whole" else "stem")
    canonical = encoder.preprocessing.eval_transform()

    def embed(images: list[Image.Image]) -> np.ndarray:
        views = [canonical(image) for image in images]
        pixels = torch.stack([view.pixels for view in views])
        return encoder.encode(pixels, pose_of(views), tokens=False).vectors

    return embed


def rotate_image(image: Image.Image, angle: float) -> Image.Image:
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    rotated = rotate_pixels(pixels[None], angle, "black")[0].round().byte()
    return Image.fromarray(rotated.permute(1, 2, 0).numpy())


def compute_vectors(images: ImageDataset, features: str, queries: int) -> Vectors:
    resized = Preprocessing(SIZE, (0.5,) * 3, (0.5,) * 3).eval_transform()
    upright = [Image.fromarray(resized(images.open(i)).pixels.permute(1, 2, 0).numpy()) for i in range(len(images))]
    generator = np.random.default_rng(0)
    chosen = np.sort(generator.choice(len(images), min(queries, len(images)), replace=False))
    rotated = [rotate_image(upright[i], float(generator.uniform(0, 360))) for i in chosen]
    embed = build_embedding(features)
    start = time.process_time()
    collection = embed(upright)
    milliseconds = (time.process_time() - start) / len(images) * 1000
    return Vectors(collection, embed(rotated), chosen, milliseconds)


def format_row(labels: np.ndarray, vectors: Vectors) -> str:
    collection, rotated, queries, milliseconds = vectors
    everything = np.arange(len(labels))
    similarities = collection @ collection.T
    upright = nearest_neighbors(similarities, everything)
    neighbors = nearest_neighbors(rotated @ collection.T, queries)
    recalls = [np.isin(row, other).mean() for row, other in zip(neighbors, upright[queries], strict=True)]
    error = np.std(recalls) / len(recalls) ** 0.5
    first = ((rotated @ collection.T).argmax(1) == queries).mean()
    median = np.median(similarities[np.triu_indices(len(labels), 1)])
    return (
        f"{same_class_share(labels, upright, everything):.1%} | {np.mean(recalls):.1%} ± {error:.1%} | "
        f"{same_class_share(labels, neighbors, queries):.1%} | {first:.1%} | {median:.2f} | {milliseconds:.0f}"
    )


def center(vectors: Vectors) -> Vectors:
    mean = vectors.collection.mean(0)
    centered = [part - mean for part in (vectors.collection, vectors.rotated)]
    collection, rotated = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in centered)
    return vectors._replace(collection=collection, rotated=rotated)


def compare_features(data: str, features: list[str], queries: int, cache: Path | None) -> None:
    images = read_evaluation_part(data, None)
    images = images.subset(np.arange(min(IMAGES, len(images))))
    for kind in features:
        file = cache / f"{Path(data).stem}-{kind}-{queries}.npz" if cache else None
        if file and file.exists():
            with np.load(file) as stored:
                vectors = Vectors(*(stored[name] for name in Vectors._fields))
        else:
            vectors = compute_vectors(images, kind, queries)
            if file:
                np.savez(file, **vectors._asdict())
        name = f"{Path(data).stem} | {kind}"
        print(f"| {name} | {format_row(images.labels, vectors)} |")
        print(f"| {name}, centered | {format_row(images.labels, center(vectors))} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", help="images, as in `spectral-vmamba train --data`")
    parser.add_argument("--features", nargs="+", choices=FEATURES, default=list(FEATURES))
    parser.add_argument("--queries", type=int, default=250, help="number of rotated queries")
    parser.add_argument("--cache", type=Path, help="existing folder for vectors, which are then computed once")
    parser.add_argument("--poolings", action="store_true", help="compare poolings of the stem's tokens instead")
    options = parser.parse_args()
    if options.poolings:
        print("| pooling of the stem's tokens | same class among the 10 nearest |\n|---|---|")
        for data in options.data:
            train = DataSplit(data, None, 0.2, 0).read().train
            sample = np.sort(np.random.default_rng(0).choice(len(train), min(1000, len(train)), replace=False))
            compare_poolings(train.subset(sample), build_encoder(MODEL, None, None, "cpu", "stem"))
        return
    print("| images | features | same class@10 | recall@10, rotated | same class@10, rotated | itself first | ", end="")
    print("median similarity | ms per image |\n|---|---|---|---|---|---|---|---|")
    for data in options.data:
        compare_features(data, options.features, options.queries, options.cache)


if __name__ == "__main__":
    main()
