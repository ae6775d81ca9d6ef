"""Measure image search with the vectors of the stem: which pooling is best, and the effect of rotated queries.

    OMP_NUM_THREADS=1 python benchmarks/retrieval.py aid_128.npz

Poolings are compared on 1,000 training images; each image is left out of its own list of neighbors. For rotations, the
test images are the collection and 100 of them are the queries, rotated by bilinear interpolation with black corners.
"""

import argparse
from collections.abc import Iterable

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import image_to_tensor, normalize
from spectral_vmamba.data.loader import eval_batches
from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.models import create_model
from spectral_vmamba.ops.turns import rotate_pixels
from spectral_vmamba.retrieval.encoder import Encoder, build_encoder

MODEL, NEIGHBORS = "spectral_vmamba_lite", 10


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


def rotate_queries(images: ImageDataset, encoder: Encoder, angles: list[float]) -> None:
    transform = encoder.preprocessing.eval_transform()

    def embed(indices: Iterable[int], angle: float = 0.0) -> np.ndarray:
        views = []
        for i in indices:
            pixels = image_to_tensor(images.open(int(i)))
            if angle:
                pixels = rotate_pixels(pixels[None], angle, "black")[0].round().byte()
            views.append(transform(Image.fromarray(pixels.permute(1, 2, 0).numpy())))
        pixels = torch.stack([view.pixels for view in views])
        return encoder.encode(pixels, [view.quarters for view in views], tokens=False).vectors

    collection = embed(range(len(images)))
    queries = np.random.default_rng(0).choice(len(images), min(100, len(images)), replace=False)
    upright = nearest_neighbors(collection[queries] @ collection.T, queries)
    for angle in angles:
        similarities = embed(queries, angle) @ collection.T
        neighbors = nearest_neighbors(similarities, queries)
        recall = np.mean([np.isin(row, other).mean() for row, other in zip(neighbors, upright, strict=True)])
        share = same_class_share(images.labels, neighbors, queries)
        first = (similarities.argmax(1) == queries).sum()
        print(f"| {angle:g}° | {recall:.1%} | {share:.1%} | {first} of {len(queries)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="images, as in `spectral-vmamba train --data`")
    parser.add_argument(
        "--angles", type=float, nargs="+", default=[0.0, 15.0, 30.0, 45.0, 90.0], help="rotations of the queries"
    )
    options = parser.parse_args()
    train, val, _ = DataSplit(options.data, None, 0.2, 0).read()
    encoder = build_encoder(MODEL, None, None, "cpu")
    print("| pooling of the stem's tokens | same class among the 10 nearest |\n|---|---|")
    sample = np.sort(np.random.default_rng(0).choice(len(train), min(1000, len(train)), replace=False))
    compare_poolings(train.subset(sample), encoder)
    print("\n| rotated by | recall@10 | same class among the 10 | finds itself first |\n|---|---|---|---|")
    rotate_queries(val, encoder, options.angles)


if __name__ == "__main__":
    main()
