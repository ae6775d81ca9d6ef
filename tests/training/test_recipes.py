"""Recipes that ship with the package."""

from dataclasses import replace

import pytest

from spectral_vmamba.training import TrainConfig
from spectral_vmamba.training.recipes import find_recipe, list_recipes, recipe


def test_all_recipes_can_be_read():
    assert {"digits", "laptop", "lite", "paper"} <= list_recipes().keys()
    assert all(isinstance(recipe(name, data="photos"), TrainConfig) for name in list_recipes())


def test_changes_and_nested_groups(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("epochs: 7\noptimizer:\n  lr: 0.25\n  betas: [0.5, 0.6]\n")
    config = recipe(str(path), batch_size=16)
    assert (config.epochs, config.batch_size) == (7, 16)
    assert (config.optimizer.lr, config.optimizer.betas) == (0.25, (0.5, 0.6))
    assert config.optimizer.weight_decay == TrainConfig().optimizer.weight_decay


@pytest.mark.parametrize("change", [{"rotation": 10.0}, replace(recipe("laptop").augment, rotation=10.0)])
def test_a_group_can_be_changed_in_part(change):
    config = recipe("laptop", augment=change)
    assert config.augment == replace(recipe("laptop").augment, rotation=10.0)


def test_unknown_recipes_and_settings_are_rejected():
    with pytest.raises(ValueError, match=r"no recipe 'none': neither a file nor one of .*digits"):
        find_recipe("none", "classification")
    with pytest.raises(ValueError, match=r"digits has no setting 'color'; there are data, "):
        recipe("digits", color="red")
