"""Options that are derived from settings classes."""

from dataclasses import fields

import pytest

from spectral_vmamba.cli import embed, main, train
from spectral_vmamba.cli.options import parse_settings
from spectral_vmamba.data.transforms import Augmentation
from spectral_vmamba.retrieval import EmbedConfig
from spectral_vmamba.training import TrainConfig, recipe
from spectral_vmamba.training.recipes import list_recipes


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epoks", "3"], "unrecognized arguments: --epoks 3"),
        (["--epoch", "3"], "unrecognized arguments: --epoch 3"),
        (["--recipe", "laptob"], "laptop"),
        (["--epochs", "many"], "Got value: many"),
        (["--augment.hflip", "often"], 'Parser key "augment.hflip"'),
        (["--cache", "maybe"], "--cache/--no-cache"),
    ],
)
def test_a_mistyped_option_is_named(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", *arguments])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_an_unknown_setting_in_a_recipe_is_named(tmp_path, capsys):
    (tmp_path / "bad.yaml").write_text("epoks: 3\n")
    with pytest.raises(SystemExit):
        main(["train", "--recipe", str(tmp_path / "bad.yaml")])
    assert "epoks" in capsys.readouterr().err
