"""Figures 1 to 3 of the paper: visiting orders of images and of the same images turned, without a frame."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectral_vmamba.data import photographs, resize
from spectral_vmamba.metrics.traversal_gap import TraversalPair, measure_traversal
from spectral_vmamba.models import SpectralConfig, SpectralTokenizer, stem_normalization
from spectral_vmamba.studies.row_tables import markdown
from spectral_vmamba.studies.study import Job, StudyOptions, refuse_options
from spectral_vmamba.utils.progress import Progress, no_progress

IMAGES = ("coffee", "immunohistochemistry", "retina", "rocket")
ANGLES = (90.0, 30.0)
_STEM, _SIZE = "timm:tf_efficientnet_lite0", 224


@dataclass(frozen=True)
class TraversalRow:
    """How many steps of the turned image visit the same patch, None between quarter turns, and the mean
    absolute rank correlation over the eigenvectors and over VMamba's two directions."""

    image: str
    angle: float
    steps: int
    same_steps: int | None
    correlation: float
    cross_scan_steps: int
    cross_scan_same_steps: int | None
    cross_scan_correlation: float


@dataclass(frozen=True)
class TraversalStudy:
    name: str = "traversal"
    title: str = "visiting orders of images and of the same images turned, without a frame"
    source: str = "Figs. 1–3"
    row: type[TraversalRow] = TraversalRow

    def plan(self, options: StudyOptions) -> list[Job[TraversalRow]]:
        refuse_options(options, self.name)
        return [
            Job(
                f"{image}, turned by {angle:g}°",
                {"image": image, "angle": angle, "stem": _STEM, "size": _SIZE},
                lambda _, image=image, angle=angle: _row(photograph_traversals(angle, (image,))[0]),
            )
            for angle in ANGLES
            for image in IMAGES
        ]

    def summarize(self, rows: Sequence[TraversalRow]) -> str:
        cells = [
            (
                row.image,
                f"{row.angle:g}°",
                _share(row.same_steps, row.steps),
                f"{row.correlation:.3f}",
                _share(row.cross_scan_same_steps, row.cross_scan_steps),
                f"{row.cross_scan_correlation:.3f}",
            )
            for row in rows
        ]
        headings = ("image", "angle", "same steps", "correlation", "VMamba: same steps", "correlation")
        return (
            f"{markdown(headings, cells)}\n\nShare of the steps that visit the same patch in the image and in its "
            "turned copy, and mean absolute rank correlation of the visiting times. The frame is off: it would make "
            "the two the same."
        )


def photograph_traversals(
    angle: float, images: Sequence[str] | None = None, progress: Progress = no_progress
) -> list[TraversalPair]:
    """The visiting orders of photographs that ship with scikit-image, and of the photographs turned.

    `images` defaults to those of the study.
    """
    images = IMAGES if images is None else images
    tokenizer = SpectralTokenizer(SpectralConfig(stem=_STEM, stem_weights="required", frame="none"))
    mean, std = stem_normalization(_STEM)
    pixels = photographs()
    return [
        measure_traversal(tokenizer, resize(pixels[name][None], _SIZE)[0], angle, mean, std, name)
        for name in progress(images, f"traversals at {angle:g}°", len(images))
    ]


def _row(pair: TraversalPair) -> TraversalRow:
    spectral, cross = pair.spectral, pair.cross_scan
    return TraversalRow(
        pair.title,
        pair.angle,
        spectral.steps,
        spectral.agreeing,
        _mean_strength(spectral.correlations),
        cross.steps,
        cross.agreeing,
        _mean_strength(cross.correlations),
    )


def _mean_strength(values: Sequence[float]) -> float:
    return sum(map(abs, values)) / len(values)


def _share(part: int | None, whole: int) -> str:
    return "–" if part is None else f"{part / whole:.1%}"
