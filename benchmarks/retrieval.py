"""Search with the stem's vectors: which pooling finds a image's own class, and what turning the query does.

    OMP_NUM_THREADS=1 python benchmarks/retrieval.py aid_128.npz

The pooling is judged on 1,000 training images, each left out of its own list. For the turns, test images are the
collection and 100 of them the queries, turned by bilinear interpolation with black corners and left out of both lists.
"""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import as_tensor, normalize
from spectral_vmamba.data.sources import training_data
from spectral_vmamba.inference.logits import pixel_batches
from spectral_vmamba.models import create_model
from spectral_vmamba.ops.turns import turned
from spectral_vmamba.retrieval.encoder import Encoder, build_encoder
from spectral_vmamba.retrieval.reading import Eye

MODEL, NEAREST = "spectral_vmamba_lite", 10


def nearest(similarities: np.ndarray, selves: np.ndarray) -> np.ndarray:
    similarities = similarities.copy()
    similarities[np.arange(len(selves)), selves] = -2  # not itself
    return np.argsort(-similarities, axis=1, kind="stable")[:, :NEAREST]


def same_class(labels: np.ndarray, found: np.ndarray, selves: np.ndarray) -> float:
    return float((labels[found] == labels[selves][:, None]).mean())


def compare_poolings(images: ImageDataset, encoder: Encoder) -> None:
    tokenizer = create_model(MODEL).eval().tokenizer
    shown = encoder.preprocessing
    with torch.inference_mode():
        x = torch.cat(
            [
                tokenizer.features(normalize(batch.views, shown.mean, shown.std))[0].clone()
                for batch in pixel_batches(images, shown, 64, 0)
            ]
        )
    mean, most, spread = x.mean(1), x.amax(1), x.std(1, unbiased=False)
    for told, parts in {
        "mean": [mean],
        "mean and max, together of length 1": [torch.cat([mean, most], 1)],
        "mean and max, each of length 1": [mean, most],
        "mean and std, together of length 1": [torch.cat([mean, spread], 1)],
        "mean and std, each of length 1": [mean, spread],
    }.items():
        vectors = F.normalize(torch.cat([F.normalize(part, dim=1) for part in parts], 1), dim=1).numpy()
        selves = np.arange(len(vectors))
        print(f"| {told} | {same_class(images.labels, nearest(vectors @ vectors.T, selves), selves):.1%} |")


def turn_queries(images: ImageDataset, encoder: Encoder, angles: list[float]) -> None:
    eye = Eye(encoder.preprocessing)

    def vectors(numbers, angle: float = 0.0) -> np.ndarray:
        seen = []
        for i in numbers:
            pixels = as_tensor(images.opener(int(i)))
            if angle:
                pixels = turned(pixels[None].float(), angle)[0].round().byte()
            seen.append(eye(Image.fromarray(pixels.permute(1, 2, 0).numpy())))
        return encoder.encode([each.pixels for each in seen], [each.quarters for each in seen], False).vectors

    collection = vectors(range(len(images)))
    queries = np.random.default_rng(0).choice(len(images), 100, replace=False)
    unturned = nearest(collection[queries] @ collection.T, queries)
    for angle in angles:
        similarities = vectors(queries, angle) @ collection.T
        found = nearest(similarities, queries)
        recall = np.mean([np.isin(a, b).mean() for a, b in zip(found, unturned, strict=True)])
        itself = (similarities.argmax(1) == queries).sum()
        print(f"| {angle:g}° | {recall:.1%} | {same_class(images.labels, found, queries):.1%} | {itself} of 100 |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="what `spectral-vmamba train --data` takes")
    parser.add_argument("--angles", type=float, nargs="+", default=[0.0, 15.0, 30.0, 45.0, 90.0])
    arguments = parser.parse_args()
    train, val = training_data(arguments.data)
    encoder = build_encoder(MODEL, None, None, "cpu")
    print("| pooling of the stem's tokens | same class among the 10 nearest |\n|---|---|")
    some = np.sort(np.random.default_rng(0).choice(len(train), 1000, replace=False))
    compare_poolings(train.subset(some), encoder)
    print("\n| turned by | recall@10 | same class among the 10 | finds itself first |\n|---|---|---|---|")
    turn_queries(val, encoder, arguments.angles)


if __name__ == "__main__":
    main()
