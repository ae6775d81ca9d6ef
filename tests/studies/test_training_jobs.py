"""Studies of trained networks on a few digits."""

import json
from dataclasses import replace

import pytest
from PIL import Image

from spectral_vmamba.models.stem_weights import MissingWeightsError
from spectral_vmamba.studies import STUDIES, StudyOptions, describe_plan, run_study, training_jobs
from spectral_vmamba.studies.accuracy_studies import AccuracyStudy, order_variants
from spectral_vmamba.studies.dynamics_study import DynamicsRow, DynamicsStudy, common_levels
from spectral_vmamba.studies.scales import CROSS_RFN, RANDOM, SCALES, SPECTRAL, VMAMBA
from spectral_vmamba.studies.training_jobs import _Source
from spectral_vmamba.studies.variants import networks
from spectral_vmamba.utils.atomic_files import only_writer
from tests.support.image_folders import write_noise


@pytest.fixture
def options(tmp_path):
    return StudyOptions(output=str(tmp_path), train_images=64, test_images=20, epochs=1, step=90.0, workers=0)


def two_networks(options):
    return networks(options.settings_of_scale, SPECTRAL, VMAMBA)


STUDY = AccuracyStudy("accuracy", "two networks", "test", two_networks, reference=lambda _: SPECTRAL)


def test_networks_are_trained_once(options, tmp_path):
    rows = run_study(STUDY, options).rows
    assert [(row.network, row.frame, row.seed) for row in rows] == [(SPECTRAL, "none", 0), (VMAMBA, "none", 0)]
    assert rows[0].images == 20
    assert rows[0].quarter_flips == 0  # RFN and STS, without a frame
    runs = sorted((tmp_path / "runs").iterdir())
    assert len(runs) == 2
    times = [(run / "last.safetensors").stat().st_mtime_ns for run in runs]
    dynamics = run_study(DynamicsStudy(), options)  # shares the two runs, and has one more network
    assert [(run / "last.safetensors").stat().st_mtime_ns for run in runs] == times
    assert len(list((tmp_path / "runs").iterdir())) == len(dynamics.rows) == 3


def test_a_run_that_another_process_trains_is_not_trained_twice(options, tmp_path):
    run = tmp_path / "runs" / STUDY.plan(options)[0].key["run"]
    with (
        only_writer(run, "training run"),
        pytest.raises(OSError, match="another process is writing to the training run"),
    ):
        run_study(STUDY, options)
    assert not list(run.iterdir())
    assert run_study(STUDY, options).rows


@pytest.mark.parametrize(
    "changes",
    [{"epochs": 2}, {"train_images": 60}, {"seeds": (1,)}, {"settings": {"augment": {"hflip": 0.5}}}],
    ids=str,
)
def test_changed_settings_use_another_run(options, changes):
    folders = {job.key["run"] for each in (options, replace(options, **changes)) for job in STUDY.plan(each)}
    assert len(folders) == 4


def test_settings_without_effect_use_the_same_run(options):
    plans = [STUDY.plan(each) for each in (options, replace(options, workers=1, cache_folder="elsewhere"))]
    assert [job.digest for job in plans[0]] == [job.digest for job in plans[1]]


def test_a_default_that_is_named_uses_the_same_run(options):
    plain, named = ({job.key["run"] for job in STUDIES[name].plan(options)} for name in ("rotation", "eigenvectors"))
    assert len(plain & named) == 2  # four eigenvectors, and VMamba
    assert len(named) == 6


def test_options_of_the_models_train_other_networks(options):
    plans = [
        STUDIES["orders"].plan(replace(options, model_options=each))
        for each in ({}, {"patch_size": 2}, {"patch_size": 4})
    ]
    default, finer, named = ({job.key["run"] for job in plan} for plan in plans)
    assert not default & finer
    assert default == named


def test_options_in_which_the_networks_differ_are_refused(options):
    eigenvectors, rotation = STUDIES["eigenvectors"], STUDIES["rotation"]
    assert len(eigenvectors.plan(replace(options, model_options={"neighbors": 9}))) == 6
    with pytest.raises(ValueError, match=r"the networks of this study differ in eigenvectors \(1, 2, 3, 4\)"):
        eigenvectors.plan(replace(options, model_options={"eigenvectors": 3}))
    with pytest.raises(ValueError, match=r"differ in turns \(4, 1\)"):  # RFN, by the registered name alone
        rotation.plan(replace(options, model_options={"turns": 8}))


@pytest.mark.parametrize("name", ["rotation", "neighbors", "segmentation"])
def test_options_that_a_study_chooses_are_refused(options, name):
    given = replace(options, train_images=None, test_images=None)
    for scale, chosen in (("lite", {"turns": 8}), ("digits", {"frame": "moment"})):
        if name == "segmentation" and scale == "lite":
            continue  # requires images with masks
        with pytest.raises(ValueError, match="is chosen by the study; leave it out of --model-options"):
            STUDIES[name].plan(
                replace(given, scale=scale, data="digits" if scale == "lite" else None, model_options=chosen)
            )


def test_options_of_the_recipe_are_kept(options):
    paper = replace(options, scale="paper", data="digits")
    (spectral,) = networks(SCALES["paper"], SPECTRAL)
    config = _Source.prepare(paper).config(paper, spectral, 0)
    assert config.model_options == {"stem": "timm:resnet18.tv_in1k"}


def test_random_orders_are_of_the_seed(options):
    (random,) = networks(SCALES["digits"], RANDOM)
    source = _Source.prepare(options)
    assert [source.config(options, random, seed).model_options.get("seed", 0) for seed in (0, 1)] == [0, 1]


def test_all_seeds_have_the_same_test_images(options):
    given = replace(options, train_images=None, test_images=None)
    (spectral,) = networks(SCALES["digits"], SPECTRAL)
    tests = [_Source.prepare(given).config(given, spectral, seed).split.read().val for seed in (0, 1)]
    assert tests[0].fingerprint() == tests[1].fingerprint()


def test_other_test_images_are_another_run(options, tmp_path):
    folder = tmp_path / "images"
    for part in ("train", "val", "test"):
        for i in range(4):
            path = folder / part / f"class{i % 2}" / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (i, 0, 0)).save(path)
    given = replace(options, data=str(folder), train_images=None, test_images=None)
    before = [job.digest for job in STUDY.plan(given)]
    Image.effect_noise((9, 9), 50).save(folder / "test" / "class0" / "0.png")
    assert not set(before) & {job.digest for job in STUDY.plan(given)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": {"augment": {"hflop": 1}}}, "unknown fields 'hflop'"),
        ({"settings": {"augment": {"hflip": 7}}}, "expected 0 ≤ hflip ≤ 1, got 7"),
        ({"settings": {"learning_rate": 1}}, "has no setting 'learning_rate'"),
        ({"settings": {"seed": 1}}, "seed is chosen by the study or by an option of its own"),
        ({"settings": {"augment": 3}}, "expected names and values for augment, as in {augment: {…}}, got 3"),
        ({"train_images": 6}, "train images: expected at least one of each of the 10 classes, got 6"),
        ({"test_images": 9000}, "test images: expected at most 359, which is all there are, got 9,000"),
        ({"initial": {"VMamba": "runs/vmamba"}}, "--initial is an option of the study segmentation"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_before_any_training(options, changes, message):
    with pytest.raises(ValueError, match=message):
        STUDY.plan(replace(options, **changes))


def test_table1_has_the_size_of_the_images(options):
    plans = [STUDIES["table1"].plan(replace(options, image_size=side)) for side in (None, 64)]
    assert [len(plan) for plan in plans] == [11, 11]
    assert not {job.key["run"] for job in plans[0]} & {job.key["run"] for job in plans[1]}
    swin = next(job for job in plans[1] if job.label.startswith("Swin"))
    assert swin.estimate is not None
    assert swin.estimate() > 0  # runs a step
    with pytest.raises(ValueError, match="expected an image size that is a multiple of 8, got 20"):
        STUDIES["table1"].plan(replace(options, image_size=20))


def test_a_trained_network_takes_no_time(options):
    run_study(STUDY, options)
    lines = list(describe_plan(STUDIES["dynamics"], options))
    trained = ["trained, not measured yet" in line for line in lines]
    assert trained == [True, True, False, False]
    assert lines[-1].startswith("in total: about ")


def test_options_are_of_spectral_vmamba_and_checked_before_any_training(options):
    before, after = (
        [job.key["run"] for job in STUDY.plan(replace(options, model_options=each))] for each in ({}, {"patch_size": 2})
    )
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, True]
    with pytest.raises(ValueError, match=r"spectral_vmamba_nano, a network of the study: .* has no option 'patch'"):
        STUDY.plan(replace(options, model_options={"patch": 2}))


def test_random_rfn_is_not_of_cached_features(options):
    with pytest.raises(ValueError, match="the scale lite caches their features; choose the scale digits, nano"):
        STUDIES["random-rfn"].plan(replace(options, scale="lite", data="digits"))
    assert len(STUDIES["random-rfn"].plan(replace(options, scale="paper", data="digits"))) == 2


def test_orders_are_compared_without_local_mixing_where_there_is_some():
    scales = {name: StudyOptions(scale=name) for name in ("nano", "lite")}
    labels = {name: [variant.label for variant in order_variants(each)] for name, each in scales.items()}
    assert labels["lite"] == [SPECTRAL, CROSS_RFN, RANDOM]
    assert labels["nano"] == [*labels["lite"], *(f"{label}, no local mixing" for label in labels["lite"])]
    chosen = order_variants(StudyOptions(scale="nano", model_options={"local_mixing": "none"}))
    assert [variant.label for variant in chosen] == labels["lite"]


def test_missing_data_says_what_is_needed(options):
    with pytest.raises(ValueError, match="the scale nano needs training images"):
        STUDY.plan(replace(options, scale="nano"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        STUDY.plan(replace(options, data="nowhere.npz"))


def test_table1_is_from_scratch(options):
    with pytest.raises(ValueError, match="table1 compares networks that are trained from scratch"):
        STUDIES["table1"].plan(replace(options, scale="lite", data="digits"))


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_has_every_network(scale):
    assert len({json.dumps(each) for each in SCALES[scale].networks.values()}) == 5


def test_the_plan_estimates_a_run(options):
    job = STUDY.plan(options)[0]
    assert job.estimate is not None
    assert 0 < job.estimate() < 600


def test_levels_that_every_run_reached():
    rows = [DynamicsRow("a", "none", 0, 1.0, (0.2, 0.5, 0.8)), DynamicsRow("b", "none", 0, 1.0, (0.4, 0.4, 0.4))]
    assert common_levels(rows)[-1] == 0.4
    assert [row.epochs_to(0.4) for row in rows] == [2, 1]
    assert rows[1].epochs_to(0.5) is None


def test_finished_runs_may_be_moved_with_their_images(options, tmp_path):
    """Another study then measures them where they are now."""
    first, second = tmp_path / "first", tmp_path / "second"
    write_noise(first / "images")
    every = replace(options, train_images=None, test_images=None)
    given = replace(every, output=str(first), data=str(first / "images"), scale="nano")
    run_study(STUDY, given)
    first.rename(second)
    moved = replace(given, output=str(second), data=str(second / "images"))
    rows = run_study(DynamicsStudy(), moved).rows
    assert len(rows) == 3
    other = AccuracyStudy("other", "the same networks", "test", two_networks, reference=lambda _: SPECTRAL)
    assert len(run_study(other, moved).rows) == 2
    assert len(list((second / "runs").iterdir())) == 3


def test_a_network_is_timed_once_for_all_seeds(options, monkeypatch):
    timed = []
    monkeypatch.setattr(
        "spectral_vmamba.studies.training_jobs.estimate_training", lambda config, _: timed.append(config.model) or 60.0
    )
    lines = list(describe_plan(STUDY, replace(options, seeds=(0, 1, 2))))
    assert timed == ["spectral_vmamba_nano", "vmamba_nano"]
    assert lines[-1] == "in total: about 6 min, without tests"


def test_large_networks_are_timed_with_few_images(monkeypatch):
    seen, clock = [], iter(range(100))
    monkeypatch.setattr(training_jobs.time, "perf_counter", lambda: float(next(clock)))
    assert training_jobs._seconds_per_image(seen.append) == 0.5  # a second for two images
    assert seen == [2, 2]
    fast = iter([0.0, 0.1, 5.0, 5.5])
    monkeypatch.setattr(training_jobs.time, "perf_counter", lambda: next(fast))
    assert training_jobs._seconds_per_image(seen.append) == 0.5 / 32
    assert seen == [2, 2, 2, 2, 32, 32]


def test_networks_and_frames_can_be_chosen(options):
    plans = {
        chosen: [job.label for job in STUDIES["rotation"].plan(replace(options, networks=chosen[0], frames=chosen[1]))]
        for chosen in (((VMAMBA,), ()), ((), ("moment",)), ((VMAMBA, SPECTRAL), ("none", "quarter")))
    }
    of_vmamba, of_moment, both = plans.values()
    assert of_vmamba == [f"VMamba, frame {frame}, seed 0" for frame in ("none", "quarter", "moment")]
    assert len(of_moment) == 4
    assert len(both) == 4
    every = {job.digest for job in STUDIES["rotation"].plan(options)}
    assert {job.digest for job in STUDIES["rotation"].plan(replace(options, frames=("moment",)))} < every


def test_unknown_networks_and_frames_list_the_choices(options):
    with pytest.raises(ValueError, match="this study has no network 'Swim'; it has 'Spectral VMamba, conv stem"):
        STUDIES["table1"].plan(replace(options, networks=("Swim",)))
    with pytest.raises(ValueError, match="this study has no frame 'upright'; it has 'none', 'quarter', 'moment'"):
        STUDIES["rotation"].plan(replace(options, frames=("upright",)))
    with pytest.raises(ValueError, match="this study has no frame 'quarter'; it has 'none'"):
        STUDIES["dynamics"].plan(replace(options, frames=("quarter",)))


def test_networks_without_their_reference_have_no_difference(options):
    result = run_study(STUDY, replace(options, networks=(VMAMBA,)))
    assert [row.network for row in result.rows] == [VMAMBA]
    assert "| VMamba | " in STUDY.summarize(result.rows)
    assert " | – | " in STUDY.summarize(result.rows)


def test_missing_weights_of_a_stem_are_refused_before_anything_is_trained(options, tmp_path, monkeypatch):
    paper = replace(options, scale="paper", data="digits", networks=(VMAMBA, SPECTRAL))
    monkeypatch.setattr("spectral_vmamba.models.stem_weights._find_file", lambda name: None)
    monkeypatch.setattr(training_jobs, "estimate_training", lambda *_: 60.0)
    with pytest.raises(MissingWeightsError, match=r"the stem timm:resnet18\.tv_in1k requires"):
        run_study(STUDY, replace(paper, seeds=(0, 1)))
    assert not (tmp_path / "runs").exists()
    lines = list(describe_plan(STUDY, replace(paper, seeds=(0, 1))))
    first, second, third, *_ = lines
    assert first.startswith(
        "Spectral VMamba, frame none, seed 0: cannot run here: the stem timm:resnet18.tv_in1k requires"
    )
    assert second == "Spectral VMamba, frame none, seed 1: cannot run here"
    assert third == "VMamba, frame none, seed 0: about 60 s"
    random = replace(paper, networks=(SPECTRAL,), model_options={"stem_weights": "none"})
    assert next(describe_plan(STUDY, random)).endswith("about 60 s")
    lost = replace(random, model_options={"stem_weights": str(tmp_path / "lost.safetensors")})
    with pytest.raises(FileNotFoundError, match=r"no stem weights at .*lost\.safetensors"):
        run_study(STUDY, lost)
    trained = tmp_path / "runs" / STUDY.plan(replace(paper, networks=(SPECTRAL,)))[0].key["run"]
    trained.mkdir(parents=True)
    (trained / "history.json").write_text("[{}]")  # its checkpoint has the stem
    assert next(describe_plan(STUDY, paper)).endswith("about 60 s")


def test_weights_of_stems_that_a_study_compares_are_refused(options):
    with pytest.raises(ValueError, match="the networks of this study differ in stem_weights"):
        STUDIES["table1"].plan(replace(options, model_options={"stem_weights": "none"}))


def test_chosen_epochs_are_not_raised_to_a_number_of_steps(options):
    source = _Source.prepare(options)
    lite = replace(options, scale="lite", data="digits")
    (variant, *_) = order_variants(lite)
    assert source.config(lite, variant, 0).min_steps == 0
    assert source.config(replace(lite, epochs=None), variant, 0).min_steps > 0
