"""Our renaming rules against the names and shapes of the tensors in the released checkpoints.

released/*.json list them; they were taken from the authors' own code, so that, unlike a translation of our own weights,
they can tell that a rule is wrong."""

import json
from functools import cache
from math import prod
from pathlib import Path

import pytest
import torch

import spectral_vmamba

FOLDER = Path(__file__).parent / "released"
VMAMBA = ("vmamba_tiny", "vmamba_small", "vmamba_base")
LOCAL_VIM = ("local_vim_tiny", "local_vim_small")
NAMES = (*VMAMBA, "vim_tiny", "vim_small", *LOCAL_VIM)
# What a model computes for itself and a checkpoint has nevertheless.
TABLES = {"rope.freqs_cos", "rope.freqs_sin"}


def vmamba_places() -> dict[str, str]:
    """Where tensors of a checkpoint have to arrive, at least one of every kind; of our names the end is enough."""
    theirs, ours = "layers.2.blocks.7.", "stages.2.blocks.7."
    return {
        "patch_embed.0.weight": "stem.0.weight",
        "patch_embed.0.bias": "stem.0.bias",
        "patch_embed.2.weight": "stem.1.weight",
        "patch_embed.2.bias": "stem.1.bias",
        "patch_embed.5.weight": "stem.3.weight",
        "patch_embed.5.bias": "stem.3.bias",
        "patch_embed.7.weight": "stem.4.weight",
        "patch_embed.7.bias": "stem.4.bias",
        "layers.0.downsample.1.weight": "stages.1.downsample.conv.weight",
        "layers.1.downsample.1.bias": "stages.2.downsample.conv.bias",
        "layers.1.downsample.3.weight": "stages.2.downsample.norm.weight",
        "layers.2.downsample.3.bias": "stages.3.downsample.norm.bias",
        "layers.0.blocks.1.op.A_logs": "stages.0.blocks.1.mixer.s6.A_log",
        "layers.3.blocks.0.op.dt_projs_bias": "stages.3.blocks.0.mixer.s6.dt_bias",
        f"{theirs}norm.weight": f"{ours}mixer_norm.weight",
        f"{theirs}norm.bias": f"{ours}mixer_norm.bias",
        f"{theirs}op.in_proj.weight": f"{ours}mixer.in_proj.weight",
        f"{theirs}op.conv2d.weight": f"{ours}mixer.local_mixing.conv.weight",
        f"{theirs}op.x_proj_weight": f"{ours}mixer.s6.x_proj",
        f"{theirs}op.dt_projs_weight": f"{ours}mixer.s6.dt_proj",
        f"{theirs}op.dt_projs_bias": f"{ours}mixer.s6.dt_bias",
        f"{theirs}op.A_logs": f"{ours}mixer.s6.A_log",
        f"{theirs}op.Ds": f"{ours}mixer.s6.D",
        f"{theirs}op.out_norm.weight": f"{ours}mixer.out_norm.weight",
        f"{theirs}op.out_norm.bias": f"{ours}mixer.out_norm.bias",
        f"{theirs}op.out_proj.weight": f"{ours}mixer.out_proj.weight",
        f"{theirs}norm2.weight": f"{ours}mlp_norm.weight",
        f"{theirs}norm2.bias": f"{ours}mlp_norm.bias",
        f"{theirs}mlp.fc1.weight": f"{ours}mlp.0.weight",
        f"{theirs}mlp.fc1.bias": f"{ours}mlp.0.bias",
        f"{theirs}mlp.fc2.weight": f"{ours}mlp.2.weight",
        f"{theirs}mlp.fc2.bias": f"{ours}mlp.2.bias",
        "classifier.norm.weight": "norm.weight",
        "classifier.norm.bias": "norm.bias",
        "classifier.head.weight": "head.weight",
        "classifier.head.bias": "head.bias",
    }


def isotropic_places(layer: int) -> dict[str, str]:
    return {
        "pos_embed": "pos_embed",
        "patch_embed.proj.weight": "patch_embed.weight",
        "patch_embed.proj.bias": "patch_embed.bias",
        f"layers.{layer}.norm.weight": f"blocks.{layer}.norm.weight",
        f"layers.{layer}.mixer.in_proj.weight": f"blocks.{layer}.mixer.in_proj.weight",
        f"layers.{layer}.mixer.out_proj.weight": f"blocks.{layer}.mixer.out_proj.weight",
        "norm_f.weight": "norm.weight",
        "head.weight": "head.weight",
        "head.bias": "head.bias",
    }


def vim_places() -> dict[str, str]:
    places = {"cls_token": "cls_token", **isotropic_places(23)}
    for layer in (0, 11, 23):
        theirs = f"layers.{layer}.mixer."
        for direction, (A_log, mark) in enumerate((("A_log", ""), ("A_b_log", "_b"))):
            ours = f"blocks.{layer}.mixer.directions.{direction}."
            places |= {
                f"{theirs}{A_log}": f"{ours}s6.A_log",
                f"{theirs}D{mark}": f"{ours}s6.D",
                f"{theirs}conv1d{mark}.weight": f"{ours}conv.weight",
                f"{theirs}conv1d{mark}.bias": f"{ours}conv.bias",
                f"{theirs}x_proj{mark}.weight": f"{ours}s6.x_proj",
                f"{theirs}dt_proj{mark}.weight": f"{ours}s6.dt_proj",
                f"{theirs}dt_proj{mark}.bias": f"{ours}s6.dt_bias",
            }
    return places


def local_vim_places() -> dict[str, str]:
    places = isotropic_places(19)
    for layer in (0, 10, 19):
        theirs = f"layers.{layer}.mixer."
        for part, gate in (("norm", "norm"), ("global_reduce", "reduce"), ("channel_select", "select")):
            places |= {
                f"{theirs}attn.{part}.{kind}": f"blocks.{layer}.mixer.gate.{gate}.{kind}" for kind in ("weight", "bias")
            }
        for direction in range(4):
            ours = f"blocks.{layer}.mixer.directions.{direction}."
            places |= {
                f"{theirs}A_log_{direction}": f"{ours}s6.A_log",
                f"{theirs}D_{direction}": f"{ours}s6.D",
                f"{theirs}conv1d_{direction}.weight": f"{ours}conv.weight",
                f"{theirs}conv1d_{direction}.bias": f"{ours}conv.bias",
                f"{theirs}x_proj_{direction}.weight": f"{ours}s6.x_proj",
                f"{theirs}dt_proj_{direction}.weight": f"{ours}s6.dt_proj",
                f"{theirs}dt_proj_{direction}.bias": f"{ours}s6.dt_bias",
            }
    return places


def places(name: str) -> dict[str, str]:
    family = name.rpartition("_")[0]
    return {"vmamba": vmamba_places, "vim": vim_places, "local_vim": local_vim_places}[family]()


@cache
def released(name: str) -> dict[str, tuple[int, ...]]:
    content = json.loads((FOLDER / f"{name}.json").read_text())
    return {tensor: tuple(shape) for tensor, shape in content["tensors"].items()}


def in_one_file(tensors: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """As the authors' version of VMamba in one file has them: two kinds named and stacked otherwise."""
    result = {}
    for name, shape in tensors.items():
        for kind in ("x_proj", "dt_projs"):
            if name.endswith(f".op.{kind}_weight"):
                name, shape = name.replace(f"{kind}_weight", f"{kind}.weight"), (shape[0] * shape[1], shape[2])
        result[name] = shape
    return result


def on_meta(name: str) -> torch.nn.Module:
    with torch.device("meta"):
        return spectral_vmamba.create_model(name)


def numbers(tensors, counted=()) -> dict[str, torch.Tensor]:
    """To every tensor its own number, which costs no memory; those in `counted` count on from theirs."""
    return {
        name: torch.arange(i, i + prod(shape)).float().reshape(shape)
        if name in counted
        else torch.tensor(float(i)).expand(shape)
        for i, (name, shape) in enumerate(tensors.items())
    }


def loaded(name: str, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    model = on_meta(name)
    found = model.load_state_dict(state, strict=True, assign=True)
    assert not found.missing_keys
    assert not found.unexpected_keys
    return model.state_dict()


@pytest.mark.parametrize("name", NAMES)
def test_the_lists_are_of_the_whole_network(name):
    tensors, own = released(name), on_meta(name).state_dict()
    kept = [shape for tensor, shape in tensors.items() if tensor not in TABLES]
    assert len(kept) == len(own)
    assert sum(map(prod, kept)) == sum(tensor.numel() for tensor in own.values())
    assert TABLES & tensors.keys() == (TABLES if name in LOCAL_VIM else set())
    assert places(name).keys() <= tensors.keys()


@pytest.mark.parametrize("name", NAMES)
def test_every_name_and_shape_is_taken(name):
    own = loaded(name, {tensor: torch.empty(shape, device="meta") for tensor, shape in released(name).items()})
    assert all(tensor.is_meta for tensor in own.values())


@pytest.mark.parametrize("name", NAMES)
def test_values_arrive_where_they_belong(name):
    state = numbers(released(name), counted=places(name))
    own = loaded(name, state)
    for theirs, ours in places(name).items():
        (place,) = {ours} & own.keys() or {tensor for tensor in own if tensor.endswith(f".{ours}")}
        assert torch.equal(own[place].flatten(), state[theirs].flatten()), f"{theirs} → {place}"
    arrived = sorted(tensor.flatten()[0].item() for tensor in own.values())
    assert arrived == [tensor.flatten()[0].item() for name, tensor in state.items() if name not in TABLES]


@pytest.mark.parametrize("name", VMAMBA)
def test_one_file_names_are_the_same_tensors(name):
    theirs = {tensor.replace("x_proj_w", "x_proj.w").replace("projs_w", "projs.w") for tensor in places(name)}
    usual = loaded(name, numbers(released(name), counted=places(name)))
    other = loaded(name, numbers(in_one_file(released(name)), counted=theirs))
    assert in_one_file(released(name)).keys() != released(name).keys()
    assert usual.keys() == other.keys()
    assert all(usual[tensor].flatten()[0] == other[tensor].flatten()[0] for tensor in usual)
    for stacked in ("x_proj", "dt_proj"):
        assert torch.equal(*(own[f"stages.2.blocks.7.mixer.s6.{stacked}"] for own in (usual, other)))


@pytest.mark.parametrize("kind", [("A_logs", "A_log"), ("Ds", "D")])
def test_stacked_directions_come_apart_in_their_order(kind):
    """The authors have direction after direction in one axis, ours is the first of two."""
    theirs, ours = "layers.1.blocks.0.op." + kind[0], "stages.1.blocks.0.mixer.s6." + kind[1]
    state = numbers(released("vmamba_small"), counted={theirs})
    own = loaded("vmamba_small", state)[ours]
    assert own.shape[:2] == (4, 384)
    for direction, rows in enumerate(state[theirs].split(384)):
        assert torch.equal(own[direction], rows)


@pytest.mark.parametrize("name", LOCAL_VIM)
def test_rotary_tables_are_left_out_and_nothing_else(name):
    state = {tensor: torch.empty(shape, device="meta") for tensor, shape in released(name).items()}
    assert not any("rope" in tensor for tensor in loaded(name, state))
    loaded(name, {tensor: value for tensor, value in state.items() if tensor not in TABLES})
    with pytest.raises(RuntimeError, match=r"Unexpected key.*rope\.freqs_tan"):
        loaded(name, {**state, "rope.freqs_tan": torch.empty(196, device="meta")})


@pytest.mark.parametrize("name", ["vmamba_tiny", "vim_tiny"])
def test_rotary_tables_are_refused_where_there_are_none(name):
    state = {tensor: torch.empty(shape, device="meta") for tensor, shape in released(name).items()}
    with pytest.raises(RuntimeError, match=r"Unexpected key.*rope\.freqs_cos"):
        loaded(name, {**state, "rope.freqs_cos": torch.empty(196, 192, device="meta")})
