"""Run a study. Finished rows are stored, and never measured again."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from spectral_vmamba._version import __version__
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.studies.study import Job, Study, StudyOptions, StudyResult
from spectral_vmamba.training import Reporter, SilentReporter
from spectral_vmamba.utils.atomic_files import only_writer, prepare_folder, write_text
from spectral_vmamba.utils.settings import from_dict
from spectral_vmamba.utils.wording import duration, plural

Row = TypeVar("Row")
RESULTS_FILE = "results.json"


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
