"""Settings as dictionaries: round trips, nesting, dotted names."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectral_vmamba.data.transforms import Augmentation, Preprocessing
from spectral_vmamba.training import OptimizerConfig, TrainConfig
from spectral_vmamba.utils.settings import flatten, from_dict, nested_settings, to_json_dict


@dataclass(frozen=True)
class Inner:
    rate: float = 0.5
    pair: tuple[int, int] = (1, 2)


@dataclass(frozen=True)
class Outer:
    name: str
    cells: tuple[tuple[int, ...], ...] = ()
    maybe: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)


INTEGERS = st.integers(-(2**53), 2**53)
FLOATS = st.floats(allow_nan=False)
OPTIONS = st.dictionaries(
    st.text(max_size=3), st.one_of(INTEGERS, st.booleans(), st.none(), st.lists(INTEGERS, max_size=3)), max_size=3
)
SETTINGS = st.builds(
    Outer,
    name=st.text(),
    cells=st.lists(st.lists(INTEGERS, max_size=2).map(tuple), max_size=3).map(tuple),
    maybe=st.none() | FLOATS,
    options=OPTIONS,
    inner=st.builds(Inner, rate=FLOATS, pair=st.tuples(INTEGERS, INTEGERS)),
)


@given(SETTINGS)
def test_round_trip(settings):
    assert from_dict(Outer, to_json_dict(settings)) == settings
    assert from_dict(Outer, asdict(settings)) == settings
    assert json.loads(json.dumps(to_json_dict(settings))) == to_json_dict(settings)


@given(FLOATS, st.integers(1, 100), st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_round_trip_of_a_training_config(lr, epochs, betas):
    config = TrainConfig(epochs=epochs, optimizer=OptimizerConfig(lr=lr, betas=(betas[0], betas[1])))
    assert from_dict(TrainConfig, to_json_dict(config)) == config


def test_json_has_lists_and_dictionaries_only():
    stored = to_json_dict(Outer("x", cells=((1, 2), (3,)), options={"widths": (4, 5)}))
    assert stored == {
        "name": "x",
        "cells": [[1, 2], [3]],
        "maybe": None,
        "options": {"widths": [4, 5]},
        "inner": {"rate": 0.5, "pair": [1, 2]},
    }


def test_nested_settings_may_be_given_as_objects_or_be_absent():
    assert from_dict(Outer, {"name": "x", "inner": Inner(0.25)}).inner == Inner(0.25)
    assert from_dict(Outer, {"name": "x", "inner": {"rate": 0.25}}).inner == Inner(0.25)
    assert from_dict(Outer, {"name": "x"}).inner == Inner()


def test_nested_classes_are_found_by_their_types():
    assert nested_settings(Outer) == {"inner": Inner}
    assert nested_settings(TrainConfig) == {"augment": Augmentation, "optimizer": OptimizerConfig}
    assert nested_settings(Preprocessing) == {}


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({}, "name"),
        ({"name": "x", "color": "red"}, "color"),
        ({"name": "x", "inner": 5}, "expected a dictionary for inner, got 5"),
        ({"name": "x", "inner": None}, "expected a dictionary for inner, got None"),
        ({"name": "x", "inner": {"speed": 1}}, "unknown fields 'speed'; there are pair, rate"),
        ({"name": 5}, "expected a text for name, got 5"),
        ({"name": "x", "cells": [[1, "2"]]}, "expected a whole number for cells, got '2'"),
        ({"name": "x", "cells": [[True]]}, "expected a whole number for cells, got True"),
        ({"name": "x", "cells": 5}, "for cells, got 5"),
        ({"name": "x", "maybe": "1"}, "expected a number or none for maybe, got '1'"),
        ({"name": "x", "options": [1]}, "for options, got"),
        ({"name": "x", "inner": {"pair": [1, 2, 3]}}, "for pair, got"),
        ({"name": "x", "inner": {"rate": None}}, "expected a number for rate, got None"),
        ({"name": "x" * 1000, "maybe": "y" * 1000}, "got 'y{50,70}…"),
    ],
)
def test_missing_unknown_and_wrong_fields_are_type_errors(stored, message):
    with pytest.raises(TypeError, match=message):
        from_dict(Outer, stored)


def test_dotted_names():
    flat = flatten(Outer("x", cells=((1,),), options={"a": 1}))
    assert flat == {
        "name": "x",
        "cells": [[1]],
        "maybe": None,
        "options": {"a": 1},
        "inner.rate": 0.5,
        "inner.pair": [1, 2],
    }
    assert flatten(TrainConfig())["augment.crop_scale"] == [0.08, 1.0]
