"""Options that are derived from settings classes."""

from dataclasses import fields

import pytest
import torch

from spectral_vmamba.cli import embed, main, train
from spectral_vmamba.cli.dispatch import COMMANDS
from spectral_vmamba.cli.options import parse_settings
from spectral_vmamba.data.transforms import Augmentation
from spectral_vmamba.retrieval import EmbedConfig
from spectral_vmamba.training import TrainConfig, recipe
from spectral_vmamba.training.recipes import list_recipes
from spectral_vmamba.utils.devices import Device


def train_settings(*words: str) -> TrainConfig:
    return parse_settings(TrainConfig, train.parser().parse_args(list(words)))


def embed_settings(*words: str) -> EmbedConfig:
    return parse_settings(EmbedConfig, embed.parser().parse_args(list(words)))


def test_no_options_are_the_defaults():
    assert train_settings() == TrainConfig()
    assert embed_settings("photos", "-o", "out") == EmbedConfig("photos", "out")


@pytest.mark.parametrize("name", sorted(list_recipes()))
def test_recipes_are_the_same_as_in_python(name):
    assert train_settings("--recipe", name) == recipe(name)


@pytest.mark.parametrize(
    ("words", "expected"), [([], False), (["--cache"], True), (["--cache", "true"], True), (["--no-cache"], False)]
)
def test_flags_need_no_value(words, expected):
    assert train.parser().parse_args([*words, "--views", "3"]).cache is expected


def test_a_flag_before_a_positional_argument_does_not_consume_it():
    assert embed_settings("--tokens", "photos", "-o", "out") == EmbedConfig("photos", "out", tokens=True)
    assert embed_settings("--no-tokens", "photos", "-o", "out").tokens is False


def test_nested_settings_and_tuples():
    settings = train_settings("--augment.crop-scale", "[0.5, 1]", "--optimizer.lr", "0.1", "--augment.hflip", "0")
    assert settings.augment.crop_scale == (0.5, 1.0)
    assert settings.augment.hflip == 0
    assert settings.optimizer.lr == 0.1
    assert settings.augment.vflip == Augmentation().vflip


def test_options_after_a_recipe_override_it():
    settings = train_settings("--recipe", "lite", "--epochs", "3", "--no-cache")
    assert (settings.epochs, settings.cache, settings.model) == (3, False, "spectral_vmamba_lite")


def test_a_printed_configuration_is_a_recipe(tmp_path, capsys):
    words = ["--recipe", "laptop", "--augment.rotation", "7"]
    with pytest.raises(SystemExit) as stop:
        train.parser().parse_args([*words, "--print-config"])
    assert stop.value.code == 0
    path = tmp_path / "mine.yaml"
    path.write_text(capsys.readouterr().out)
    assert train_settings("--recipe", str(path)) == train_settings(*words)


def test_every_setting_of_embed_is_an_option():
    actions = {action.dest for action in embed.parser()._actions}
    assert {field.name for field in fields(EmbedConfig)} <= actions


@pytest.mark.parametrize("command", ["train", "evaluate", "certify", "predict", "embed", "search"])
def test_the_device_option_is_the_same_everywhere(command):
    (action,) = [action for action in COMMANDS[command].parser()._actions if action.dest == "device"]
    assert (action._typehint, action.default) == (Device, "auto")


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is available")
def test_a_missing_gpu_is_one_clear_line(run_folder, embeddings, photo_folders, tmp_path, capsys):
    run, output, image = str(run_folder), str(tmp_path / "out"), str(photo_folders / "odd" / "01.png")
    commands = (
        ["train", "--data", "digits", "--output", output],
        ["evaluate", run],
        ["certify", run],
        ["predict", run, image],
        ["embed", str(photo_folders), "--output", output],
        ["search", str(embeddings), image, "--sheet", str(tmp_path / "out" / "sheet.png")],
    )
    for command in commands:
        assert main([*command, "--device", "cuda"]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: the device cuda is not available: torch ")
        assert not list(tmp_path.iterdir()), "a refused command leaves no folder"
