"""Time and peak memory of segmentation networks against the pixels of an image, and the share of STS in them."""

import math
from dataclasses import dataclass
from functools import partial

import torch

from benchmarks.suite.forward_profile import time_with_sts
from benchmarks.suite.memory import run_probe
from benchmarks.suite.settings import Settings
from benchmarks.suite.timing import growth_exponent
from spectral_vmamba.data import photograph_crops, resize
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.segmentation import Segmenter, segment_recipe
from spectral_vmamba.segmentation.model import build_segmenter
from spectral_vmamba.utils.progress import Progress

SIDES = (128, 256, 512, 1024, 2048)
# Recipe: sides of whole images with 4,096 and 16,384 tokens.
WHOLE_SIDES = {"segment_lite": (1024, 2048), "segment_nano": (256, 512)}
CLASSES = 8
_BEST_OF, _SLOW_SECONDS = 3, 20.0


@dataclass(frozen=True)
class SegmenterCell:
    """One square image in windows of `window` pixels, or as a whole if it is not larger.

    `tokens` are those of a window. `bytes` is the growth of memory at its peak, None if it was not measured.
    """

    side: int
    window: int
    tokens: int
    seconds: float
    sts_seconds: float
    bytes: int | None

    @property
    def sts_share(self) -> float:
        return self.sts_seconds / self.seconds


@dataclass(frozen=True)
class SegmenterGrowth:
    """`cells` are in the windows of the recipe, `whole` are without windows.

    `time_growth` and `memory_growth` are powers of the number of pixels, over the cells of at least `fitted_from` px.
    """

    recipe: str
    cells: list[SegmenterCell]
    whole: list[SegmenterCell]
    fitted_from: int
    time_growth: float
    memory_growth: float


@dataclass(frozen=True)
class SegmentersResult:
    networks: list[SegmenterGrowth]
    notices: list[str]


def measure_segmenters(settings: Settings, progress: Progress) -> SegmentersResult:
    sides, whole_sides, window = SIDES, WHOLE_SIDES, None
    if settings.quick:
        sides, whole_sides, window = (32, 64), {"segment_nano": (64,)}, 48
    windows = {name: window or segment_recipe(name, data="").largest_window for name in whole_sides}
    tasks = [(name, side, windows[name]) for name in whole_sides for side in sides]
    tasks += [(name, side, side) for name, chosen in whole_sides.items() for side in chosen]
    cells, notices = {}, []
    for name, side, size in progress(tasks, "segmentation", len(tasks)):
        options = {"side": side, "width": size, "threads": settings.threads, "seed": settings.seed}
        probe = run_probe(f"segmenter:{name}", options)
        if probe.returncode:
            reason = (probe.stderr.strip() or f"exit code {probe.returncode}").splitlines()[-1]
            notices.append(f"memory of {name} at {side} px: {reason}")
        peak = None if probe.returncode else int(probe.stdout)
        cells[name, side, size] = _measure_cell(name, side, size, settings.seed, peak)
    return SegmentersResult(
        [
            _fit_growth(
                name,
                [cells[name, side, windows[name]] for side in sides],
                [cells[name, side, side] for side in whole_sides[name]],
            )
            for name in whole_sides
        ],
        notices,
    )


def seeded_segmenter(recipe: str, window: int, seed: int) -> Segmenter:
    """The network of a recipe with random weights, also of its stem: their values do not change the time."""
    torch.manual_seed(seed)
    config = segment_recipe(recipe, data="")
    model = build_segmenter(config.model, {"stem_weights": "none"}, config.network, CLASSES).eval()
    classes, palette = tuple(map(str, range(CLASSES))), ((0, 0, 0),) * CLASSES
    preprocessing = Preprocessing(config.size, (0.5,) * 3, (0.25,) * 3)
    return Segmenter(recipe, model, classes, palette, preprocessing, window, torch.device("cpu"))


def photograph(side: int, seed: int) -> torch.Tensor:
    """A photograph of `side` × `side` pixels, 0 to 255."""
    return resize(photograph_crops(1, 224, seed), side)[0].round().byte()


def _measure_cell(name: str, side: int, window: int, seed: int, peak: int | None) -> SegmenterCell:
    segmenter, image = seeded_segmenter(name, window, seed), photograph(side, seed)
    tokenizer = segmenter.model.tokenizer
    assert tokenizer is not None
    segmenter.mask(image[:, :64, :64])  # warms up
    runs = [time_with_sts(segmenter.model, partial(segmenter.mask, image))]
    while len(runs) < _BEST_OF and runs[0][0] < _SLOW_SECONDS:
        runs.append(time_with_sts(segmenter.model, partial(segmenter.mask, image)))
    tokens = math.ceil(min(side, window) / tokenizer.patch_size) ** 2
    return SegmenterCell(side, window, tokens, *min(runs), peak)


def _fit_growth(name: str, cells: list[SegmenterCell], whole: list[SegmenterCell]) -> SegmenterGrowth:
    """Small images are left out of the fit: they cost calls of operations more than work on pixels."""
    fitted = cells[-3:]
    pixels = [cell.side**2 for cell in fitted]
    memory = [cell.bytes or math.nan for cell in fitted]
    time_growth = growth_exponent(pixels, [cell.seconds for cell in fitted])
    return SegmenterGrowth(name, cells, whole, fitted[0].side, time_growth, growth_exponent(pixels, memory))
