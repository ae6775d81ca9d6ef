"""Reproduce a figure or a table of the paper."""

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import print_line
from spectral_vmamba.cli.options import CommandParser, add_settings, parse_settings
from spectral_vmamba.utils.atomic_files import write_text
from spectral_vmamba.utils.interruption import Interrupted
from spectral_vmamba.utils.wording import duration

if TYPE_CHECKING:
    from spectral_vmamba.studies import StudyOptions, StudyResult

_DESCRIPTION = f"""{__doc__}

Measures the numbers, training networks where it must, and writes results.json, results.md and the figure as PNG and SVG
into OUTPUT/NAME. Run the same command again to resume: finished rows and training runs are not repeated, and studies
share their runs. A row is measured again if a setting, the data or the version has changed.

{{studies}}

Examples:
  spectral-vmamba reproduce cost
  spectral-vmamba reproduce rotation --scale digits
  spectral-vmamba reproduce eigenvectors --scale nano --data cifar10.npz --train-images 5000 --seeds 0 1 2 --dry-run
  spectral-vmamba reproduce rotation --scale paper --data mini-imagenet.csv"""


def parser() -> CommandParser:
    from spectral_vmamba.studies import STUDIES, StudyOptions

    width = max(map(len, STUDIES))
    listed = "\n".join(f"  {name:{width}}  {study.title} ({study.source})" for name, study in STUDIES.items())
    parser = CommandParser(description=_DESCRIPTION.format(studies=listed))
    parser.add_argument("name", metavar="NAME", type=str, help="figure or table to reproduce")
    add_settings(parser, StudyOptions, skip=("seeds", "networks", "frames"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="seeds of the runs; one run each")
    parser.add_argument(
        "--networks",
        type=str,
        nargs="+",
        default=[],
        help="measure only these networks of the study, for example Vim LocalVim; an unknown name lists them; defaults "
        "to all",
    )
    parser.add_argument(
        "--frames",
        type=str,
        nargs="+",
        default=[],
        help="measure only networks with these frames, for example none moment; defaults to all",
    )
    parser.add_argument(
        "--dry-run", type=bool, default=False, help="print what would be measured and how long it takes"
    )
    parser.add_argument(
        "--redraw",
        type=bool,
        default=False,
        help="write the text and the figure again from the rows of the last call in OUTPUT/NAME/results.json; needs no "
        "data and trains nothing",
    )
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.studies import STUDIES, StudyOptions, describe_plan, find_study, read_result, run_study
    from spectral_vmamba.training import TerminalReporter

    console, study = Console(), find_study(config.name, STUDIES)
    options = parse_settings(StudyOptions, config)
    if config.redraw:
        _refuse_other_options(options, config.dry_run)
    if config.dry_run:
        for line in describe_plan(study, options):
            print_line(console, line)
        return 0
    try:
        if config.redraw:
            result, shown_options = read_result(study, options.output)
        else:
            result, shown_options = run_study(study, options, TerminalReporter(console)), options
    except Interrupted as stopped:  # the message of a training run names an option of `train`
        raise Interrupted("stopped; the same command continues", stopped.exit_code) from stopped
    folder, text = (
        Path(options.output) / study.name,
        describe_result(result, shown_options, study.summarize(result.rows)),
    )
    write_text(folder / "results.md", text)
    figure = _draw(study.name, study.title, result.rows)
    for suffix in ("png", "svg"):
        figure.savefig(folder / f"{study.name}.{suffix}", dpi=110)
    print_line(console, text)
    print_line(console, f"wrote results.json, results.md, {study.name}.png and {study.name}.svg in {folder}")
    return 0


def _refuse_other_options(options: "StudyOptions", dry_run: bool) -> None:
    """Raise a ValueError for options that --redraw would ignore."""
    from spectral_vmamba.studies import StudyOptions

    defaults = StudyOptions()
    names = [each.name for each in fields(options) if each.name != "output"]
    given = [name for name in names if getattr(options, name) != getattr(defaults, name)] + ["dry_run"] * dry_run
    if given:
        raise ValueError(
            f"--redraw shows the rows of the last call as they are and cannot change --{given[0].replace('_', '-')}; "
            "leave it out, or measure without --redraw"
        )


def describe_result(result: "StudyResult[Any]", options: "StudyOptions", numbers: str) -> str:
    """The numbers, and how they were measured."""
    machine = result.environment
    return (
        f"# {result.title[0].upper()}{result.title[1:]} ({result.source})\n\n{numbers}\n\n"
        f"`{command_line(result.study, options)}`, {'; '.join(result.machines)}; "
        f"accelerator {machine['accelerator']}, torch {machine['packages']['torch']}, {result.date}; measured and "
        f"trained in {duration(result.seconds)}.\n"
    )


def command_line(name: str, options: "StudyOptions") -> str:
    """The command with the options that are not at their defaults. Files are named without their folders."""
    from spectral_vmamba.studies import StudyOptions

    words, defaults = ["spectral-vmamba", "reproduce", name], StudyOptions()
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name in ("output", "cache_folder", "workers") or value == getattr(defaults, field.name):
            continue
        value = shlex.quote(json.dumps(value)) if isinstance(value, dict) else value
        value = Path(value).name if field.name in ("data", "val_data") else value
        values = value if isinstance(value, tuple) else (value,)
        shown = map(shlex.quote, values) if field.name == "networks" else map(str, values)
        words += [f"--{field.name.replace('_', '-')}", *shown]
    return " ".join(words)


def _draw(name: str, title: str, rows: Sequence[Any]) -> Any:
    from spectral_vmamba.plots import cost_plots, study_plots
    from spectral_vmamba.plots.traversal_plots import plot_traversals
    from spectral_vmamba.studies.traversal_study import ANGLES, photograph_traversals

    plots: dict[str, Callable[[Sequence[Any]], Any]] = {
        "rotation": study_plots.plot_rotation_study,
        "dynamics": study_plots.plot_dynamics,
        "random-rfn": study_plots.plot_random_rfn,
        "segmentation": study_plots.plot_segmentation,
        "erf": study_plots.plot_receptive_fields,
        "cost": cost_plots.plot_cost,
        "flops": cost_plots.plot_flops,
        "traversal": lambda rows: plot_traversals(photograph_traversals(ANGLES[0])),
    }
    return plots.get(name, lambda rows: study_plots.plot_accuracy_study(rows, title))(rows)
