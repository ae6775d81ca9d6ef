"""The costs in Table 1 and the text of the paper: parameters, FLOPs by both rules, and STS on its own."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from spectral_vmamba.metrics.flops import measure_cost
from spectral_vmamba.metrics.sts_operations import measure_sts_operations
from spectral_vmamba.models import create_model, is_spectral
from spectral_vmamba.models.spectral_config import SpectralConfig
from spectral_vmamba.ops.selective_scan import missing_backends
from spectral_vmamba.studies.cost_study import stem_tokens
from spectral_vmamba.studies.row_tables import markdown
from spectral_vmamba.studies.study import Job, StudyOptions, refuse_options

# GFLOPs of the paper's Table 1, at 224 px; None where not checked. The paper's VMamba-B has those of VMamba-S.
PAPER: dict[str, float | None] = {
    "spectral_vmamba_tiny": 3.9,
    "spectral_vmamba_small": 6.3,
    "spectral_vmamba_base": 6.3,
    "vmamba_tiny": 4.9,
    "vmamba_small": 8.7,
    "vmamba_base": 8.7,
    "vim_tiny": 1.5,
    "vim_small": 5.1,
    "local_vim_tiny": 1.5,
    "local_vim_small": 4.8,
    "msvmamba_tiny": 4.6,
    "deit_small_patch16_224": None,
    "swin_tiny_patch4_window7_224": None,
    "xcit_small_24_p16_224": None,
}
_CLASSES = 100


@dataclass(frozen=True)
class FlopRow:
    """Parameters, and billions of multiply-adds of one image; STS in millions, None for networks without it."""

    model: str
    pixels: int
    trainable_parameters: int
    frozen_parameters: int
    gflops_authors: float
    gflops: float
    sts_distances: float | None = None
    sts_weights: float | None = None
    sts_solver: float | None = None


@dataclass(frozen=True)
class FlopStudy:
    name: str = "flops"
    title: str = "parameters and FLOPs of every model, and those of STS"
    source: str = "Table 1 and text"
    row: type[FlopRow] = FlopRow

    def plan(self, options: StudyOptions) -> list[Job[FlopRow]]:
        refuse_options(options, self.name)
        native = "native" not in missing_backends()
        return [
            Job(model, {"model": model, "classes": _CLASSES, "native": native}, lambda _, model=model: count(model))
            for model in PAPER
        ]

    def summarize(self, rows: Sequence[FlopRow]) -> str:
        cells = [
            (
                row.model,
                f"{row.trainable_parameters / 1e6:.1f}",
                f"{row.frozen_parameters / 1e6:.1f}",
                "–" if PAPER.get(row.model) is None else f"{PAPER[row.model]:.1f}",
                f"{row.gflops_authors:.2f}",
                f"{row.gflops:.2f}",
                *(
                    "–" if value is None else f"{value:.2f}"
                    for value in (row.sts_distances, row.sts_weights, row.sts_solver)
                ),
            )
            for row in rows
        ]
        headings = (
            "model",
            "trainable [M]",
            "frozen [M]",
            "GFLOPs, paper",
            "GFLOPs, authors' rule",
            "GFLOPs, all that runs",
            "STS: distances [M]",
            "weights [M]",
            "solver [M]",
        )
        return (
            f"{markdown(headings, cells)}\n\nMultiply-adds for one image and {_CLASSES} classes. The authors' rule "
            "counts the stem once, “all that runs” each of its four passes; neither contains STS, whose numbers are "
            "those of one photograph on the native kernels. The paper says that STS takes 2 MFLOPs."
        )


def count(model: str) -> FlopRow:
    cost = measure_cost(model, num_classes=_CLASSES)
    sts: tuple[float | None, ...] = (None, None, None)
    if is_spectral(model) and "native" not in missing_backends():
        with torch.device("meta"):
            tokenizer = create_model(model, stem_weights=None).tokenizer
        config: SpectralConfig = tokenizer.config
        tokens, _ = stem_tokens(-(-cost.input_size[0] // config.patch_size), config.patch_size)
        # Their work depends on the channels and, through rounds and edges, a little on the features.
        tokens = tokens.repeat(1, 1, -(-tokenizer.channels // tokens.shape[-1]))[..., : tokenizer.channels]
        operations = measure_sts_operations(tokens, config.neighbors or 5, config.eigenvectors)
        sts = tuple(value / 1e6 for value in (operations.distances, operations.weights, operations.solver))
    return FlopRow(
        model,
        cost.input_size[0],
        cost.trainable_parameters,
        cost.frozen_parameters,
        cost.gflops_authors,
        cost.gflops,
        *sts,
    )
