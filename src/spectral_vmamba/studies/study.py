"""A study: rows of numbers, each measured by a job of its own. Finished rows are stored, and never measured again."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from spectral_vmamba._version import __version__
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.studies.scales import SCALES, Scale
from spectral_vmamba.training import Reporter, SilentReporter
from spectral_vmamba.utils.atomic_files import only_writer, prepare_folder, write_text
from spectral_vmamba.utils.settings import from_dict
from spectral_vmamba.utils.wording import at_least, closest, duration, plural

Row = TypeVar("Row")
RESULTS_FILE = "results.json"


@dataclass(frozen=True)
class StudyOptions:
    """What a study is run on."""

    scale: str = "digits"
    """digits (the built-in digits, minutes on a CPU), nano (networks of a million parameters from scratch), lite (a
    frozen pretrained stem) or paper (the paper's networks and recipe, for GPUs)"""
    data: str | None = None
    """training images, as in `train --data`; requires none with the scale digits"""
    val_data: str | None = None
    """test images, if the data does not contain them"""
    train_images: int | None = None
    """train on this many random images; defaults to all"""
    test_images: int | None = None
    """measure on this many random images; defaults to all"""
    networks: tuple[str, ...] = ()
    """measure only these networks of the study; defaults to all"""
    frames: tuple[str, ...] = ()
    """measure only networks with these frames; defaults to all"""
    seeds: tuple[int, ...] = (0,)
    """seeds of weights, data order and augmentation, one run each; the test images are the same for all"""
    epochs: int | None = None
    """training epochs; defaults to those of the scale"""
    image_size: int | None = None
    """pixels per side; defaults to the model's"""
    model_options: dict[str, Any] = field(default_factory=dict)
    """keywords of the Spectral VMamba networks of the study, as in {patch_size: 2}; those that it compares are refused,
    and networks of other families keep theirs"""
    settings: dict[str, Any] = field(default_factory=dict)
    """changes of the training settings of all networks, as in {augment: {hflip: 0}, optimizer: {lr: 0.001}}"""
    initial: dict[str, str] = field(default_factory=dict)
    """checkpoints that the networks of the study segmentation start from, as in {VMamba: runs/vmamba}"""
    step: float = 15.0
    """degrees between the angles of a test"""
    cache_folder: str | None = None
    """folder of the feature cache of the scale lite"""
    workers: int | None = None
    """data loading processes; defaults to one per core, at most 8"""
    output: str = "reproduced"
    """folder for results and training runs, which studies share"""

    def __post_init__(self):
        if self.scale not in SCALES:
            raise ValueError(f"no scale {self.scale!r}; there are {', '.join(SCALES)}")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"expected one or more different seeds, got {self.seeds}")
        if min(self.seeds) < 0:
            raise ValueError(f"expected seeds of at least 0, got {min(self.seeds)}")
        at_least(1, epochs=self.epochs, image_size=self.image_size, train_images=self.train_images)
        at_least(1, test_images=self.test_images)
        at_least(0, workers=self.workers)
        if not 0 < self.step <= 360:
            raise ValueError(f"expected a step of more than 0 and at most 360 degrees, got {self.step:g}")

    @property
    def settings_of_scale(self) -> Scale:
        return SCALES[self.scale]


@dataclass(frozen=True)
class Job(Generic[Row]):
    """Measures one row. `key` contains everything that determines the row, besides the version of the package;
    `estimate` is the seconds it will take; `check` raises an error if it cannot run on this machine."""

    label: str
    key: Mapping[str, Any]
    run: Callable[[Reporter], Row]
    estimate: Callable[[], float] | None = None
    check: Callable[[], object] | None = None

    @property
    def digest(self) -> str:
        return digest([self.key, __version__])


class Study(Protocol[Row]):
    """A figure or a table of the paper."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def source(self) -> str:
        """Where the paper has it."""
        ...

    @property
    def row(self) -> type[Row]: ...

    def plan(self, options: StudyOptions) -> list[Job[Row]]: ...

    def summarize(self, rows: Sequence[Row]) -> str:
        """Return the numbers as Markdown."""
        ...


@dataclass(frozen=True)
class StudyResult(Generic[Row]):
    """Rows with what they were measured on: `date` and `environment` are those of the newest row, `machines` those of
    all rows, as text. `seconds` is the time of all rows, also of those measured earlier."""

    study: str
    title: str
    source: str
    options: dict[str, Any]
    date: str
    seconds: float
    environment: dict[str, Any]
    machines: list[str]
    rows: list[Row]


def digest(key: Any) -> str:
    """A short hash of JSON values."""
    return sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]


def run_study(study: Study[Row], options: StudyOptions, reporter: Reporter | None = None) -> StudyResult[Row]:
    """Measure all rows that the output folder does not have, and write results.json after each of them.

    Ctrl-C stops; the same call continues, within a training run too. A row is measured again if any setting, the data
    or the version of this package has changed.
    """
    reporter = reporter or SilentReporter()
    folder = Path(options.output) / study.name
    prepare_folder(folder, "output folder")
    with only_writer(folder, "output folder"):
        jobs, finished = study.plan(options), read_finished(folder / RESULTS_FILE, study.row)
        missing = [job for job in jobs if job.digest not in finished]
        for job in missing:
            if job.check:
                job.check()
        began = time.monotonic()
        for number, job in enumerate(missing):
            start = time.monotonic()
            left = (start - began) / number * (len(missing) - number) if number else None
            remaining = "" if left is None else f" (about {duration(left)} left if the others take as long)"
            reporter.note(f"{study.name}, {number + 1} of {len(missing)}: {job.label}{remaining}")
            row = asdict(job.run(reporter))  # pyright: ignore[reportArgumentType]
            finished[job.digest] = {
                "label": job.label,
                "key": dict(job.key),
                "date": _now(),
                "environment": asdict(measure_environment()),
                "seconds": round(time.monotonic() - start, 1),
                "row": row,
            }
            _write(folder / RESULTS_FILE, study, options, finished, jobs)
        _write(folder / RESULTS_FILE, study, options, finished, jobs)
    return _result(study, options, [finished[job.digest] for job in jobs])


def read_result(study: Study[Row], folder: str | Path) -> tuple[StudyResult[Row], StudyOptions]:
    """The finished rows of the last call of a study in an output folder, and its options; nothing is measured.

    Its files are named without their folders. Raises a ValueError if there are no rows.
    """
    path = Path(folder) / study.name / RESULTS_FILE
    finished = read_finished(path, study.row)
    if not finished:
        raise ValueError(f"there are no rows of {study.name} at {path}; leave out --redraw to measure them")
    stored = json.loads(path.read_text(encoding="utf-8"))
    rows = [finished[key] for key in stored.get("last_call", finished) if key in finished]
    known = {each.name for each in fields(StudyOptions)}
    options = from_dict(StudyOptions, {name: value for name, value in stored["options"].items() if name in known})
    return _result(study, options, rows), options


def describe_plan(study: Study[Any], options: StudyOptions) -> Iterator[str]:
    """One line for each row that would be measured, with the estimated time, which takes seconds to measure."""
    finished = read_finished(Path(options.output) / study.name / RESULTS_FILE, study.row)
    estimates, known, problems = [], True, set[str]()
    for job in study.plan(options):
        if job.digest in finished:
            yield f"{job.label}: finished"
        elif problem := _problem(job):
            yield f"{job.label}: cannot run here{'' if problem in problems else f': {problem}'}"
            problems.add(problem)
            known = False
        elif job.estimate is None:
            yield f"{job.label}: not estimated"
            known = False
        else:
            estimates.append(job.estimate())
            trained = "trained, not measured yet" if estimates[-1] == 0 else f"about {duration(estimates[-1])}"
            yield f"{job.label}: {trained}"
    if estimates:
        total = f"about {duration(sum(estimates))}, without tests"
        yield f"{'in total' if known else 'those that are estimated, in total'}: {total}"


def _problem(job: Job[Any]) -> str | None:
    try:
        if job.check:
            job.check()
    except (OSError, ValueError) as error:
        return str(error)
    return None


def refuse_options(options: StudyOptions, study: str) -> None:
    """Raise a ValueError for options of a study that trains nothing, and has none."""
    of_training = [each for each in fields(StudyOptions) if each.name not in ("output", "workers", "cache_folder")]
    defaults = StudyOptions()
    given = [each.name for each in of_training if getattr(options, each.name) != getattr(defaults, each.name)]
    if given:
        raise ValueError(f"{study} trains no network and has no option --{given[0].replace('_', '-')}; leave it out")


def find_study(name: str, studies: Mapping[str, Study[Any]]) -> Study[Any]:
    if name in studies:
        return studies[name]
    meant = closest(name, studies)
    suggestion = f"; did you mean {meant}?" if meant else ""
    raise ValueError(f"no study {name!r}; there are {', '.join(studies)}{suggestion}")


def row_of(kind: type[Row], stored: Mapping[str, Any]) -> Row:
    """A finished row, as it was measured."""
    return from_dict(kind, stored["row"])


def read_finished(path: Path, row: type[Any]) -> dict[str, dict[str, Any]]:
    """Finished rows by the digest of their job, without those that have other fields than rows have now."""
    if not path.exists():
        return {}
    try:
        finished = dict(json.loads(path.read_text(encoding="utf-8"))["finished"])
        return {key: each for key, each in finished.items() if _is_complete(each, row)}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not the result of a study: {error!r}; move it, or choose another output"
        ) from error


def _is_complete(stored: dict[str, Any], row: type[Any]) -> bool:
    try:
        row_of(row, stored)
    except TypeError:
        return False
    return {"date", "environment", "seconds"} <= stored.keys()


def _write(
    path: Path,
    study: Study[Any],
    options: StudyOptions,
    finished: Mapping[str, dict[str, Any]],
    jobs: Sequence[Job[Any]],
) -> None:
    """All finished rows, and which of them belong to this call."""
    result = asdict(replace(_result(study, options, list(finished.values())), rows=[]))
    kept = {name: value for name, value in result.items() if name not in ("rows", "seconds", "machines")}
    called = [job.digest for job in jobs if job.digest in finished]
    write_text(path, json.dumps({**kept, "last_call": called, "finished": finished}, indent=1))


def _without_folders(options: StudyOptions) -> dict[str, Any]:
    """The options without the folders of this machine."""
    stored = asdict(options)
    names: dict[str, Any] = {name: Path(stored[name]).name for name in ("data", "val_data") if stored[name]}
    names["initial"] = {name: Path(path).name for name, path in options.initial.items()}
    kept = {name: value for name, value in stored.items() if name not in ("output", "cache_folder", "workers")}
    return {**kept, **names, "version": __version__}


def _result(study: Study[Row], options: StudyOptions, finished: Sequence[Mapping[str, Any]]) -> StudyResult[Row]:
    newest = max(finished, key=lambda each: each["date"])
    environments = [each["environment"] for each in finished]
    machines = [f"{each['machine']}, {plural(each['threads'], 'thread')}" for each in environments]
    return StudyResult(
        study.name,
        study.title,
        study.source,
        _without_folders(options),
        newest["date"],
        sum(_seconds(each) for each in finished),
        newest["environment"],
        list(dict.fromkeys(machines)),
        [row_of(study.row, each) for each in finished],
    )


def _seconds(finished: Mapping[str, Any]) -> float:
    """Of a row, with the training of its network where another study or an earlier call has trained it."""
    return max(finished["seconds"], finished["row"].get("training_seconds", 0.0))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
