"""What a study is: its options, and rows of numbers, each measured by a job of its own."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Any, Generic, Protocol, TypeVar

from spectral_vmamba._version import __version__
from spectral_vmamba.studies.scales import SCALES, Scale
from spectral_vmamba.training import Reporter
from spectral_vmamba.utils.wording import at_least, closest

Row = TypeVar("Row")


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
