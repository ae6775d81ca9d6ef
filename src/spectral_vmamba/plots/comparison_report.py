"""Classifiers side by side, upright and turned: figures, and one HTML file that holds them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from spectral_vmamba.metrics.classification import Scores
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.metrics.rotation import Sweep
from spectral_vmamba.plots.html_report import Section, as_html
from spectral_vmamba.plots.rotation_plots import plot_polar, plot_sweeps
from spectral_vmamba.plots.training_plots import LearningCurve, plot_confusion, plot_learning


@dataclass(frozen=True)
class Subject:
    """One classifier and all that was measured of it. `sweeps` begin with the one to draw around the circle; `flips`
    and `max_change` are over all quarter turns of all images."""

    label: str
    classes: tuple[str, ...]
    curve: LearningCurve
    scores: Scores
    sweeps: Sequence[Sweep]
    flips: int
    max_change: float

    def in_words(self) -> str:
        sweep = self.sweeps[0]
        quarters = "/".join(f"{point.accuracy:.1%}" for point in sweep.quarters)
        return (
            f"{self.label}: {sweep.upright.accuracy:.1%} upright, {quarters} at 90/180/270° ({self.flips} flips), "
            f"worst {sweep.worst.accuracy:.1%} at {sweep.worst.angle:g}°"
        )


def comparison_report(
    subjects: Sequence[Subject],
    title: str,
    introduction: str,
    traversals: Mapping[str, Figure],
    reproduce: str,
    seconds: float,
) -> tuple[dict[str, Figure], str]:
    """Figures by name, and the report."""
    fills = [sweep.fill for sweep in subjects[0].sweeps]
    by_fill = {fill: [s for subject in subjects for s in subject.sweeps if s.fill == fill] for fill in fills}
    sweeps = {f"rotations_{fill}": plot_sweeps(some, f"Turned, corners: {fill}") for fill, some in by_fill.items()}
    polar = plot_polar(by_fill[fills[0]])
    learning = plot_learning({subject.label: subject.curve for subject in subjects})
    confusions = {f"confusion_{i}": _confusion(subject) for i, subject in enumerate(subjects)}
    sections = [
        Section(
            "In short",
            table=_table(subjects),
            figures=[(polar, f"Accuracy of every angle, corners {fills[0]}; the circle's edge is 100 %.")],
        ),
        Section(
            "Angle by angle",
            ["Quarter turns are exact, other angles bilinear. The disk shows only the inscribed circle at any angle."],
            figures=[(figure, "Left: accuracy. Right: same answer as unturned.") for figure in sweeps.values()],
        ),
        Section("Learning", figures=[(learning, "By epoch; validation accuracy is of upright images.")]),
        Section(
            "What is taken for what",
            figures=[(figure, subjects[i].label) for i, figure in enumerate(confusions.values())],
        ),
        Section(
            "Why: the visiting orders turn with the image",
            [
                "Each row is a photograph as it is and turned; colors tell when a patch is visited along each "
                "eigenvector of the similarity graph. At quarter turns the orders are the same, patch by patch."
            ],
            figures=[(figure, f"Visiting orders, {name.replace('_', ' at ')}°") for name, figure in traversals.items()],
        ),
        Section("How to reproduce", _facts(seconds), code=reproduce),
    ]
    figures = {"polar": polar, **sweeps, "learning": learning, **confusions, **traversals}
    return figures, as_html(title, introduction, sections)


def _confusion(subject: Subject) -> Figure:
    return plot_confusion(subject.scores, subject.classes, f"{subject.label}, upright")


def _table(subjects: Sequence[Subject]) -> list[list[str]]:
    rows = [
        ["", "corners", "upright", "90/180/270°", "flips there", "largest change of p", "mean of angles", "worst angle"]
    ]
    for subject in subjects:
        for sweep in subject.sweeps:
            rows.append(
                [
                    subject.label,
                    sweep.fill,
                    f"{sweep.upright.accuracy:.1%}",
                    " / ".join(f"{point.accuracy:.1%}" for point in sweep.quarters),
                    str(sum(point.flips for point in sweep.quarters)),
                    f"{max(point.max_change for point in sweep.quarters):.2g}",
                    f"{sweep.mean_accuracy:.1%}",
                    f"{sweep.worst.accuracy:.1%} at {sweep.worst.angle:g}°",
                ]
            )
    return rows


def _facts(seconds: float) -> list[str]:
    environment = measure_environment()
    packages = ", ".join(f"{name} {version}" for name, version in environment.packages.items())
    return [
        f"spectral-vmamba {environment.version}, Python {environment.python}, {environment.machine}, "
        f"{environment.threads} threads, accelerator: {environment.accelerator}. {packages}.",
        f"Everything together took {seconds:.0f} s.",
    ]
