"""Sentences and table rows of an evaluation, for the terminal and the report."""

from spectral_vmamba.inference.evaluation import Evaluation
from spectral_vmamba.metrics.rotation import Sweep

SWEEP_HEADINGS = ("corners", "at 0°", "at 90/180/270°", "flips", "mean", "worst angle", "least agreement")
_MATCHING = 0.02  # confidence and accuracy that differ by less are called equal


def describe_worst_class(evaluation: Evaluation) -> str:
    """The accuracy and the name of the worst class, or that there is none."""
    shares = zip(evaluation.scores.per_class, evaluation.classes, strict=True)
    measured = [(share, name) for share, name in shares if share is not None]
    worst, name = min(measured)
    if worst == 1:
        return "all classes at 100%"
    ties = sum(share == worst for share, _ in measured) - 1
    return f"{worst:.2%} ({name}{f' and {ties} more' if ties else ''})"


def explain_calibration(evaluation: Evaluation) -> str:
    """Compare mean confidence and accuracy, and name label smoothing as a cause of low confidence where it is one."""
    confidence, accuracy = evaluation.mean_confidence, evaluation.scores.top1
    points = abs(confidence - accuracy) * 100
    text = (
        f"Mean confidence {confidence:.1%}, accuracy {accuracy:.1%}, expected calibration error "
        f"{evaluation.scores.calibration_error:.1%} (15 bins). "
    )
    if points < 100 * _MATCHING:
        return text + "On average, the probabilities match the accuracy."
    if confidence > accuracy:
        return text + f"The classifier is overconfident, by {points:.1f} points on average."
    text += f"The classifier is underconfident, by {points:.1f} points on average."
    smoothing = evaluation.label_smoothing
    if not smoothing:
        return text
    target = 1 - smoothing + smoothing / len(evaluation.classes)
    text += f" It was trained with label smoothing {smoothing:g}: the target of the true class is {target:.3g}, not 1. "
    explained = 100 * (1 - target)
    if points > explained + 100 * _MATCHING:
        return (
            text + f"This explains {explained:.1f} points; the rest is uncertainty, for example after a short training."
        )
    return text + "This keeps the confidence below 1 where every prediction is correct; the classes are not affected."


def describe_worst_angle(sweep: Sweep) -> str:
    """The lowest accuracy and its angle, or that there is none."""
    worst = sweep.worst
    if all(point.correct == worst.correct for point in sweep.points):
        return f"{worst.accuracy:.2%}, all equal"
    return f"{worst.accuracy:.2%} at {worst.angle:g}°"


def sweep_cells(sweep: Sweep) -> list[str]:
    """The row of a sweep below `SWEEP_HEADINGS`."""
    return [
        sweep.fill,
        f"{sweep.upright.accuracy:.2%}",
        " ".join(f"{point.accuracy:.2%}" for point in sweep.quarters),
        "/".join(str(point.flips) for point in sweep.quarters),
        f"{sweep.mean_accuracy:.2%}",
        describe_worst_angle(sweep),
        f"{min(point.agreement for point in sweep.points):.2%}",
    ]
