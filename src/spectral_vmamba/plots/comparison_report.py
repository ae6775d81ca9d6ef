"""Compare classifiers on upright and rotated images: figures, and one HTML report that embeds them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from spectral_vmamba.inference.certificate import COLUMNS, Certificate
from spectral_vmamba.metrics.classification import Scores
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.metrics.rotation import Sweep
from spectral_vmamba.metrics.traversal_gap import TraversalPair
from spectral_vmamba.plots.html_report import Section, format_html
from spectral_vmamba.plots.rotation_plots import plot_polar, plot_sweeps
from spectral_vmamba.plots.training_plots import LearningCurve, plot_confusion, plot_learning
from spectral_vmamba.plots.traversal_plots import plot_traversals

_SOURCES = (
    "A frame turns every image into a position of its own, chosen by its content, before the first layer: “quarter” "
    "to one of its four quarter turns, “moment” then by one more rotation. All four quarter turns enter the network as "
    "the same bits: this holds for every network, VMamba included (level “tensor”).",
    "RFN (features) and STS (visiting orders) make Spectral VMamba itself invariant to quarter turns, up to rounding. "
    "This shows when the frame is switched off after training (level “no-frame”); VMamba's predictions then "
    "depend on the orientation.",
    "Between quarter turns the frame “moment” gives nearly the same position. Nothing is promised there: the curves "
    "below are measurements.",
)


@dataclass(frozen=True)
class MeasuredClassifier:
    """One classifier and its measurements.

    The first of `sweeps` is also plotted around the circle. `certificate` has the levels `tensor` and `no-frame`.
    """

    label: str
    classes: tuple[str, ...]
    curve: LearningCurve
    scores: Scores
    sweeps: Sequence[Sweep]
    certificate: Certificate

    def summarize(self) -> str:
        """Return accuracies, flips and the worst angle as one line."""
        sweep, flips = self.sweeps[0], self.certificate.flips
        quarters = "/".join(f"{point.accuracy:.1%}" for point in sweep.quarters)
        return (
            f"{self.label}: {sweep.upright.accuracy:.1%} upright, {quarters} at 90/180/270° ({flips} flips), "
            f"worst {sweep.worst.accuracy:.1%} at {sweep.worst.angle:g}°"
        )


def make_comparison_report(
    classifiers: Sequence[MeasuredClassifier],
    title: str,
    introduction: str,
    shipped: Sweep,
    traversals: Mapping[str, Sequence[TraversalPair]],
    reproduce: str,
    seconds: float,
) -> tuple[dict[str, Figure], str]:
    """Return the figures by name, and the HTML report that embeds them.

    `shipped` is the sweep of the network that ships with the package. `traversals` maps a figure name,
    `traversal_ANGLE`, to the images to plot. `reproduce` is the command that makes the report again; `seconds` is how
    long it took.
    """
    fills = [sweep.fill for sweep in classifiers[0].sweeps]
    by_fill = {fill: [sweep for each in classifiers for sweep in each.sweeps if sweep.fill == fill] for fill in fills}
    sweeps = {
        f"rotations_{fill}": plot_sweeps(group, f"Rotated images, corners: {fill}") for fill, group in by_fill.items()
    }
    first = plot_sweeps([shipped], "Effect of rotating the images")
    polar = plot_polar(by_fill[fills[0]])
    learning = plot_learning({classifier.label: classifier.curve for classifier in classifiers})
    confusions = {f"confusion_{i}": _confusion(classifier) for i, classifier in enumerate(classifiers)}
    visits = {name: plot_traversals(pairs) for name, pairs in traversals.items()}
    sections = [
        Section(
            "Summary",
            table=_table(classifiers),
            figures=[(polar, f"Accuracy at every angle, corners: {fills[0]}. The edge of the circle is 100 %.")],
        ),
        Section(
            "The network that ships with the package",
            [f"{shipped.name}, which was trained before: {describe_sweep(shipped)}."],
            figures=[(first, "Left: accuracy. Right: same prediction as upright.")],
        ),
        Section("Where the invariance comes from", _SOURCES, _invariance_table(classifiers)),
        Section(
            "Accuracy by angle",
            [
                "Quarter turns are exact, other angles bilinear. With the fill “disk”, only the inscribed circle is "
                "visible at every angle."
            ],
            figures=[(figure, "Left: accuracy. Right: same prediction as upright.") for figure in sweeps.values()],
        ),
        Section("Training", figures=[(learning, "Loss and validation accuracy per epoch, on upright images.")]),
        Section(
            "Confusion matrices",
            figures=[(figure, classifiers[i].label) for i, figure in enumerate(confusions.values())],
        ),
        Section(
            "Visiting orders of rotated images",
            [
                "Each pair of rows shows a photograph, upright on the left and rotated on the right. Colors show when "
                "each patch is visited: above by the scans of VMamba, below along each eigenvector of the similarity "
                "graph. The frame is off here, so that RFN and STS see different pixels on the two sides. The title "
                "counts, at quarter turns, the steps that visit the same patch; ρ is the rank correlation."
            ],
            figures=[
                (figure, f"Visiting orders at {name.removeprefix('traversal_')}°") for name, figure in visits.items()
            ],
        ),
        Section("How to reproduce", _facts(seconds), code=reproduce),
    ]
    figures = {"shipped": first, "polar": polar, **sweeps, "learning": learning, **confusions, **visits}
    return figures, format_html(title, introduction, sections)


def describe_sweep(sweep: Sweep) -> str:
    """The accuracy upright and at the worst angle, and the predictions that change at quarter turns."""
    flips, images = sum(point.flips for point in sweep.quarters), sum(point.images for point in sweep.quarters)
    return (
        f"{sweep.upright.accuracy:.1%} upright, at least {sweep.worst.accuracy:.1%} at {len(sweep.points)} angles; "
        f"{flips} of {images:,} predictions change at 90, 180 and 270°"
    )


def _confusion(classifier: MeasuredClassifier) -> Figure:
    return plot_confusion(classifier.scores, classifier.classes, f"{classifier.label}, upright")


def _table(classifiers: Sequence[MeasuredClassifier]) -> list[list[str]]:
    rows = [
        [
            "",
            "corners",
            "upright",
            "90/180/270°",
            "flips at quarter turns",
            "largest change of a probability",
            "mean over angles",
            "worst angle",
        ]
    ]
    for classifier in classifiers:
        for sweep in classifier.sweeps:
            rows.append(
                [
                    classifier.label,
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


def _invariance_table(classifiers: Sequence[MeasuredClassifier]) -> list[list[str]]:
    """The results of the certificates without the condition and the number of images, which are the same in all."""
    rows = [["", COLUMNS[0], *COLUMNS[3:]]]
    for classifier in classifiers:
        for level, _, _, *results in (check.cells() for check in classifier.certificate.checks):
            rows.append([classifier.label, level, *results])
    return rows


def _facts(seconds: float) -> list[str]:
    environment = measure_environment()
    packages = ", ".join(f"{name} {version}" for name, version in environment.packages.items())
    return [
        f"spectral-vmamba {environment.version}, Python {environment.python}, {environment.machine}, "
        f"{environment.threads} threads, accelerator: {environment.accelerator}. {packages}.",
        f"This report took {seconds:.0f} s.",
    ]
