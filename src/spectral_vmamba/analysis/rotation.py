"""Drawing rotation gaps."""

from matplotlib.figure import Figure

from spectral_vmamba.testing import RotationGap


def plot_rotation(gaps: dict[str, list[RotationGap]], subtitle: str = "") -> Figure:
    """One line a model: how far its logits move over the angles."""
    figure = Figure(figsize=(8.5, 5.4), layout="constrained")
    axis = figure.subplots()
    for name, points in gaps.items():
        angles = [0.0, *(gap.angle for gap in points)]
        differences = [0.0, *(gap.mean_difference for gap in points)]
        axis.plot(angles, differences, marker="o", markersize=4, label=name)
    for quarter in (90, 180, 270):
        axis.axvline(quarter, color="grey", linewidth=0.7, linestyle=":")
    axis.set_xticks(range(0, 361, 45))
    axis.set_xlabel("turn of the input [degrees]")
    axis.set_ylabel("mean |Δ logit| / std of the logits")
    axis.set_ylim(bottom=0)
    axis.grid(axis="y", alpha=0.3)
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    axis.set_title(
        "How far the answer moves when the picture turns" + (f"\n{subtitle}" if subtitle else ""), fontsize=11
    )
    return figure
