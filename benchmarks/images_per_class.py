"""How many images per class are enough: the transfer benchmark on growing parts of the training images.

    python -m benchmarks.images_per_class aid_128.npz --counts 5 10 20 50 100 --output results/aid_counts

Every training set is a random choice of `count` images of each class; the test images are the same for all. Compares
`spectral_vmamba_lite` by the `lite` recipe with logistic regression on the whole pretrained EfficientNet-Lite0, trained
on upright images and on their four quarter turns. All other options are those of `benchmarks/transfer.py`. Finished
runs stay in the output folder; run the same command again to resume. Writes results.md.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.transfer import WHOLE, Result, option_parser, run
from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.sources import DataSplit

RUNS = (("spectral", "turned"), (WHOLE, "upright"), (WHOLE, "turned"))


def choose_images(dataset: ImageDataset, count: int, seed: int) -> np.ndarray:
    """Return the indices of `count` random images of each class (all of a smaller class)."""
    generator, classes = np.random.default_rng(seed), range(len(dataset.classes))
    chosen = [generator.permutation(np.flatnonzero(dataset.labels == label))[:count] for label in classes]
    return np.sort(np.concatenate(chosen))


def write_pack(path: Path, train: ImageDataset, test: ImageDataset) -> None:
    """Write a NumPy pack of image files with the two splits."""
    contents = [dataset.storage.content(i) for dataset in (train, test) for i in range(len(dataset))]
    np.savez(
        path,
        data=np.frombuffer(b"".join(contents), dtype=np.uint8),
        offset=np.cumsum([0, *map(len, contents)]),
        label=np.concatenate([train.labels, test.labels]),
        classes=np.array(train.classes),
        split=np.array(["train"] * len(train) + ["val"] * len(test)),
    )


def format_markdown(results: Mapping[int, Sequence[Result]]) -> str:
    lines = [
        "| images per class | classifier | trained | upright | mean of all angles | worst angle |",
        "|---|---|---|---|---|---|",
    ]
    for count, rows in results.items():
        for row in rows:
            cells = (
                count,
                row.variant,
                row.protocol,
                *(f"{100 * v:.1f} %" for v in (row.upright, row.mean, row.worst)),
            )
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def parse_options() -> argparse.Namespace:
    parser = option_parser(__doc__ or "")
    parser.add_argument("--counts", type=int, nargs="+", default=[5, 10, 20, 50, 100], help="images per class")
    parser.add_argument("--test-images", type=int, default=1000)
    parser.set_defaults(output="benchmarks/results/images_per_class")
    return parser.parse_args()


def main() -> None:
    options, console = parse_options(), Console()
    folder, seed = Path(options.output), options.seeds[0]
    folder.mkdir(parents=True, exist_ok=True)
    train, test = DataSplit(options.data, None, 0.2, 0).read()[:2]
    test = test.subset(np.sort(np.random.default_rng(0).permutation(len(test))[: options.test_images]))
    results: dict[int, list[Result]] = {}
    for count in options.counts:
        pack = folder / f"{count}.npz"
        if not pack.exists():
            write_pack(pack, train.subset(choose_images(train, count, seed)), test)
        part = argparse.Namespace(**{**vars(options), "data": str(pack), "output": str(folder / str(count))})
        results[count] = run(part, RUNS, console)
        (folder / "results.md").write_text(format_markdown(results))
    console.print(format_markdown(results), highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
