"""The table of the paper's supplement: mean IoU of masks, Spectral VMamba and VMamba with the same decoder."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from spectral_vmamba._version import __version__
from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.data.readers.folder import file_stamp
from spectral_vmamba.inference.checkpoint import find_checkpoint
from spectral_vmamba.segmentation import (
    SegmentConfig,
    evaluate_segmenter,
    fit_segmenter,
    load_segmenter,
    segment_recipe,
)
from spectral_vmamba.segmentation.readers import read_masked_split
from spectral_vmamba.studies.row_tables import markdown, percent
from spectral_vmamba.studies.scales import SPECTRAL, VMAMBA
from spectral_vmamba.studies.study import Job, StudyOptions, digest
from spectral_vmamba.studies.training_jobs import TrainedRow, by_network, settings_that_matter
from spectral_vmamba.studies.variants import (
    Variant,
    check_compared,
    choose_variants,
    merge_model_options,
    merge_settings,
)
from spectral_vmamba.training import Reporter
from spectral_vmamba.utils.atomic_files import only_writer

_DIGIT_IMAGES, _DIGIT_SIDE = 240, 32
_RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "digits": ("segment_nano", {"size": _DIGIT_SIDE, "epochs": 6}),
    "nano": ("segment_nano", {}),
    "lite": ("segment_lite", {}),
    "paper": ("ade20k_upernet_tiny", {}),
}
_UPRIGHT = {"rotation": 0.0, "vflip": 0.0}


@dataclass(frozen=True)
class SegmentationRow(TrainedRow):
    """Mean IoU of the averaged weights of the last epoch: of one scale, of six scales and mirror images, and at the
    worst angle inside the disk, None if images are not turned."""

    images: int
    single_scale: float
    multi_scale: float
    upright_in_disk: float
    worst: float


@dataclass(frozen=True)
class SegmentationStudy:
    name: str = "segmentation"
    title: str = "mean IoU of masks, single-scale and multi-scale"
    source: str = "supplement, segmentation"
    row: type[SegmentationRow] = SegmentationRow

    def plan(self, options: StudyOptions) -> list[Job[SegmentationRow]]:
        data = _find_data(options)
        recipe, settings = _RECIPES[options.scale]
        variants = [Variant(label, _network(options, label)) for label in (SPECTRAL, VMAMBA)]
        check_compared(options, variants)
        jobs = []
        for variant in choose_variants(options, variants):
            label, network = variant.label, variant.settings
            for seed in options.seeds:
                own = merge_model_options(options, network, segment_recipe(recipe).model_options, seed)
                changes = merge_settings({**settings, "augment": _UPRIGHT}, options.settings)
                changes |= {**network, "model_options": own}
                if options.epochs:
                    changes |= {"epochs": options.epochs, "steps": 0}
                if options.image_size:
                    changes["size"] = options.image_size
                config = segment_recipe(
                    recipe,
                    data=data,
                    val_data=options.val_data,
                    seed=seed,
                    split_seed=0,
                    initial=_find_initial(options, label),
                    tracker="none",
                    workers=options.workers,
                    **changes,
                )
                jobs.append(_job(options, label, config))
        return jobs

    def summarize(self, rows: Sequence[SegmentationRow]) -> str:
        cells = [
            (
                network,
                *(
                    percent([getattr(row, name) for row in seeds])
                    for name in ("single_scale", "multi_scale", "upright_in_disk", "worst")
                ),
            )
            for (network, _), seeds in by_network(rows).items()
        ]
        headings = ("backbone", "mean IoU, one scale", "six scales and flips", "upright, disk", "worst angle, disk")
        count = rows[0].images if rows else 0
        return f"{markdown(headings, cells)}\n\nPercent, {count} test images, without a frame, upright training images."


def _network(options: StudyOptions, label: str) -> dict[str, Any]:
    """The backbone, with RFN's turns among its options: a segmentation network has turns of its own."""
    network = {"frame": "none", **options.settings_of_scale.networks[label]}
    if "turns" in network:
        network["model_options"] = {"turns": network.pop("turns"), **network.get("model_options", {})}
    return network


def _job(options: StudyOptions, label: str, config: SegmentConfig) -> Job[SegmentationRow]:
    split = read_masked_split(config.split)
    fingerprints = [split.train.fingerprint(), (split.test or split.val).fingerprint()]
    if config.initial:
        fingerprints.append(file_stamp(find_checkpoint(config.initial)))
    name = f"{config.model}-masks-{digest([settings_that_matter(config), fingerprints, __version__])}"
    config = replace(config, output=str(Path(options.output) / "runs" / name))

    def run(reporter: Reporter) -> SegmentationRow:
        with only_writer(Path(config.output), "training run"):
            result = fit_segmenter(config, resume=True, reporter=reporter)
        segmenter = load_segmenter(result.folder / "last.safetensors", "ema" if config.ema else "raw")
        dataset = split.test or split.val
        if options.test_images and options.test_images < len(dataset):
            dataset = dataset.subset(np.linspace(0, len(dataset) - 1, options.test_images).round().astype(np.int64))
        measured = evaluate_segmenter(segmenter, dataset, options.step, multi_scale=True, progress=reporter.track)
        worst = measured.worst
        assert measured.multi_scale is not None
        assert worst is not None
        return SegmentationRow(
            label,
            config.frame,
            config.seed,
            round(sum(epoch.seconds for epoch in result.history), 1),
            measured.images,
            measured.scores.mean_iou,
            measured.multi_scale.mean_iou,
            measured.rotations[0].mean_iou,
            worst.mean_iou,
        )

    key = {"run": name, "label": label, "step": options.step, "images": options.test_images}
    return Job(f"{label}, frame {config.frame}, seed {config.seed}", key, run)


def _find_initial(options: StudyOptions, label: str) -> str | None:
    unknown = set(options.initial) - {SPECTRAL, VMAMBA}
    if unknown:
        raise ValueError(f"no network {unknown.pop()!r} in --initial; there are {SPECTRAL!r} and {VMAMBA!r}")
    if options.scale == "paper" and label not in options.initial:
        raise ValueError(
            f"at the scale paper, both backbones start from classifiers; train them, for example with `spectral-vmamba "
            f"reproduce table1 --scale paper`, and name them: --initial '{{{SPECTRAL}: …, {VMAMBA}: …}}'"
        )
    return options.initial.get(label)


def _find_data(options: StudyOptions) -> str:
    if options.data is not None:
        if options.train_images:
            raise ValueError("--train-images chooses labeled images; prepare fewer images with masks for segmentation")
        return options.data
    if options.scale != "digits":
        raise ValueError(f"the scale {options.scale} needs images with masks, as --data tiles/ (docs/segmentation.md)")
    return str(write_digit_masks(Path(options.output) / "data", options.train_images or _DIGIT_IMAGES))


def write_digit_masks(folder: Path, count: int) -> Path:
    """Handwritten digits as images with masks: the ink is one class, paper the other."""
    target, digits = folder / f"digit-masks-{count}", read_digits()
    if count > len(digits):
        raise ValueError(f"expected at most {len(digits):,} training images, got {count:,}; there are no more digits")
    for i in range(count):
        image = digits.open(i).convert("L").resize((_DIGIT_SIDE, _DIGIT_SIDE), Image.Resampling.BICUBIC)
        mask = (np.asarray(image) > 127).astype(np.uint8)
        for kind, pixels in (("images", np.asarray(image)), ("masks", mask)):
            path = target / kind / f"{i:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    (target / "classes.txt").write_text("paper\nink\n")
    return target
