"""A checkpoint from a stranger: whatever its header says, loading it gives one clear error, quickly and without memory.

Every file here has a valid checksum, as an attacker would write it.
"""

import json
import time
from dataclasses import replace

import pytest
import torch

from spectral_vmamba.cli import main
from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference import load
from spectral_vmamba.inference.checkpoint import FORMAT, KIND, CheckpointError, CheckpointHeader, save_checkpoint
from spectral_vmamba.inference.network import build_classifier
from spectral_vmamba.utils.peak_memory import measure_growth
from spectral_vmamba.utils.settings import to_json_dict
from spectral_vmamba.utils.tensor_file import write_tensors

OPTIONS = {"widths": (8,), "depths": (1,)}
SECONDS, BYTES = 2.0, 2**26
HEADER = CheckpointHeader(
    model="spectral_vmamba_nano",
    model_options=OPTIONS,
    classes=("a", "b"),
    preprocessing=Preprocessing(32, (0.5,) * 3, (0.5,) * 3),
    split=DataSplit("photos", None, 0.2, 0),
    has_ema=False,
)
PREPROCESSING = to_json_dict(HEADER.preprocessing)
SPLIT = to_json_dict(HEADER.split)


@pytest.fixture(scope="module")
def tensors():
    model = build_classifier(HEADER.model, dict(OPTIONS), HEADER.classes)
    return {f"raw.{name}": tensor for name, tensor in model.state_dict().items()}


def options(**changes):
    return {"model_options": {**OPTIONS, **changes}}


def other(model: str, **model_options):
    return {"model": model, "model_options": model_options}


def lite(**changes):
    return other("spectral_vmamba_lite", **OPTIONS, **changes)


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


HEADERS = {
    # files, hubs and code
    "hub name": (other("hf-hub:stranger/model"), "expected the name of a registered model, got 'hf-hub:"),
    "local folder": (other("local-dir:../../x"), "expected the name of a registered model, got 'local-dir:"),
    "path as model": (other("../../etc/passwd"), "expected the name of a registered model"),
    "checkpoint_path": (options(checkpoint_path="/tmp/x.pth"), "option 'checkpoint_path' is not allowed"),
    "checkpoint_path of timm": (other("resnet18", checkpoint_path="x.pth"), "'checkpoint_path' is not allowed"),
    "pretrained": (other("resnet18", pretrained=True), "option 'pretrained' is not allowed"),
    "pretrained_cfg": (other("resnet18", pretrained_cfg={"url": "http://x"}), "'pretrained_cfg' is not allowed"),
    "pretrained_cfg_overlay": (
        options(pretrained_cfg_overlay={"file": "x"}),
        "'pretrained_cfg_overlay' is not allowed",
    ),
    "cache_dir": (other("resnet18", cache_dir="/tmp"), "option 'cache_dir' is not allowed"),
    "stem weights": (lite(stem_weights="/etc/passwd"), "option 'stem_weights' is not allowed"),
    "path as stem": (lite(stem="timm:../../x"), r"expected a plain word for the model option stem, got 'timm:\.\./"),
    "hub name as stem": (lite(stem="timm:hf-hub:x/y"), "expected a plain word for the model option stem"),
    "unknown stem": (lite(stem="timm:nonsense"), "expected a stem 'conv' or 'timm:NAME'"),
    "stem without timm:": (lite(stem="resnet18"), "expected a stem 'conv' or 'timm:NAME'"),
    "URL": (other("resnet18", act_layer="http://x/y"), "expected a plain word for the model option act_layer"),
    "dictionary": (other("resnet18", block_args={"a": 1}), "option block_args has a value of the type dict"),
    "attribute": (options(**{"__class__": 1}), "has no option '__class__'"),
    # sizes
    "huge width": (options(widths=(10**9,)), "numbers of at most 16,384 for the model option widths, got 1e"),
    "wide within the limit": (options(widths=(16384,), mlp_ratio=64.0), "far larger than the file's"),
    "huge depth": (options(depths=(10**8,)), "numbers of at most 16,384 for the model option depths"),
    "deep within the limit": (options(depths=(16384,)), "depths asks for 16,384 layers; the file has [0-9]+ tensors"),
    "deep timm model": (other("resnet18", layers=(9999, 1, 1, 1)), "layers asks for 10,002 layers"),
    "many stages": (options(widths=(8,) * 5000, depths=(1,) * 5000), "widths has 5,000 values; expected at most"),
    "huge timm model": (other("vit_giant_patch14_224"), "far larger than the file's|does not match the model"),
    "huge stem": (lite(stem="timm:regnety_1280", patch_size=4), "far larger than the file's"),
    "huge buffers": (  # window masks, which no file of weights contains
        other("swin_tiny_patch4_window7_224", embed_dim=8, depths=(24, 2, 2, 2), img_size=2048, window_size=32),
        "far more than the file's|far larger than the file's",
    ),
    "huge timm option": (other("resnet18", base_width=10**6), "at most 16,384 for the model option base_width"),
    "huge window": (options(traversal="w99999"), "expected numbers below 1,000 in the model option traversal"),
    "negative width": (options(widths=(-8,)), "no negative number for the model option widths"),
    "no width": (options(widths=(), depths=()), "describes no model that can be built: expected one depth per width"),
    "infinite ratio": (options(mlp_ratio=float("inf")), "at most 16,384 for the model option mlp_ratio, got inf"),
    "NaN ratio": (options(mlp_ratio=float("nan")), "at most 16,384 for the model option mlp_ratio, got nan"),
    "huge number": (options(patch_size=10**400), "expected numbers of at most|cannot be read"),
    "many classes": ({"classes": [""] * 250_001}, "expected 1 to 250,000 classes, got 250,001"),
    "no classes": ({"classes": []}, "expected 1 to 250,000 classes, got 0"),
    "huge image": ({"preprocessing": {**PREPROCESSING, "size": 10**6}}, "images of 1 to 8192 pixels per side"),
    "negative image": ({"preprocessing": {**PREPROCESSING, "size": -1}}, "images of 1 to 8192 pixels per side"),
    "tiny crop": ({"preprocessing": {**PREPROCESSING, "crop": 1e-9}}, "expected a crop of 0.05 to 2"),
    "NaN mean": ({"preprocessing": {**PREPROCESSING, "mean": [float("nan")] * 3}}, "as many finite means"),
    # types and names
    "unknown option": (options(color="red"), "Spectral VMamba has no option 'color'; it has .*widths"),
    "unknown field": ({"color": "red"}, "unknown fields 'color'; there are .*classes"),
    "text as width": (options(widths="8"), "expected tuple.*for widths, got '8'"),
    "truth value as width": (options(widths=(True,)), "expected a whole number for widths, got True"),
    "other domain": (options(domain="cube"), "expected one of 'square', 'disk' for domain, got 'cube'"),
    "other pooling": (options(global_pool=5), "option global_pool has a value of another type"),
    "number as model": ({"model": 5}, "expected a text for model, got 5"),
    "list of options": ({"model_options": [1]}, "for model_options, got"),
    "number as class": ({"classes": ["a", 5]}, "expected a text for classes, got 5"),
    "terminal codes": ({"classes": ["a", "\x1b[2J"]}, r"the class '\\x1b\[2J' contains control characters"),
    "terminal codes in the data": ({"split": {**SPLIT, "data": "\x1b[2J"}}, "contains control characters"),
    "long unknown field": ({"c" * 100_000: 1}, "unknown fields 'c{60}';"),
    "text as format": ({"format": "3"}, "its format is '3'"),
    "deep": ({"training": {"x": nested(100)}}, "nested more than 16 levels deep"),
    "very deep": ({"training": {"x": nested(900)}}, "nested more than 16 levels deep|recursion"),
}


def check_rejected(path, message: str) -> None:
    """One CheckpointError with this message, without time or memory for it."""

    def attempt() -> None:
        with pytest.raises(CheckpointError, match=message):
            load(path)

    started = time.process_time()
    assert measure_growth(attempt) < BYTES
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize("name", HEADERS)
def test_hostile_headers_are_rejected(tmp_path, tensors, name):
    changes, message = HEADERS[name]
    path = tmp_path / "x.safetensors"
    write_tensors(path, tensors, KIND, {**to_json_dict(HEADER), "format": FORMAT, **changes})
    check_rejected(path, message)


def test_the_unchanged_file_loads(tmp_path, tensors):
    save_checkpoint(tmp_path / "x.safetensors", tensors, HEADER)
    assert load(tmp_path / "x.safetensors").classes == ("a", "b")


def write_raw(path, header: str, tensors: bytes = b"") -> None:
    content = header.encode()
    path.write_bytes(len(content).to_bytes(8, "little") + content + tensors)


def test_a_header_that_is_longer_than_allowed(tmp_path):
    """Of two gigabytes: in a short file, and in a sparse file that has them."""
    path = tmp_path / "x.safetensors"
    path.write_bytes((2**31).to_bytes(8, "little") + b"{}")
    check_rejected(path, "a header of 2,147,483,648 bytes; expected at most")
    with path.open("r+b") as file:
        file.truncate(2**32)
    check_rejected(path, "a header of 2,147,483,648 bytes; expected at most")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ('{"__metadata__": {"a": "1", "a": "2"}}', "the key 'a' appears twice"),
        (json.dumps({"__metadata__": {"spectral_vmamba": '{"kind": "x", "kind": "y"}'}}), "'kind' appears twice"),
        (json.dumps({"__metadata__": {"spectral_vmamba": "[" * 10**6}}), "damaged"),
        ("[" * 10**6, "damaged"),
        ('{"__metadata__": 5}', "its metadata is not a table of texts"),
        ("[]", "not a JSON object"),
        ('{"a": ' + "9" * 5000 + "}", "damaged"),
        (
            json.dumps({"__metadata__": {}, "t": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}),
            "not a",
        ),
    ],
)
def test_hostile_safetensors_headers_are_rejected(tmp_path, header, message):
    write_raw(tmp_path / "x.safetensors", header)
    check_rejected(tmp_path / "x.safetensors", message)


def test_tensors_larger_than_the_file(tmp_path):
    path = tmp_path / "x.safetensors"
    stored = json.dumps({**to_json_dict(HEADER), "format": FORMAT, "kind": KIND})
    tensor = {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}
    write_raw(path, json.dumps({"__metadata__": {"spectral_vmamba": stored}, "raw.a": tensor}))
    check_rejected(path, "damaged")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"raw.head.weight": torch.zeros(3, 8)}, r"'head.weight': the model has \(2, 8\), the file \(3, 8\)"),
        ({"raw.extra": torch.zeros(1)}, "'extra': the model has no such tensor"),
        ({"raw.head.bias": None}, r"'head.bias': the model has \(2,\), the file no such tensor"),
        ({"other.x": torch.zeros(1)}, "unexpected tensor 'other.x'"),
    ],
)
def test_weights_of_another_model_are_rejected(tmp_path, tensors, changes, message):
    changed = {name: tensor for name, tensor in {**tensors, **changes}.items() if tensor is not None}
    save_checkpoint(tmp_path / "x.safetensors", changed, HEADER)
    check_rejected(tmp_path / "x.safetensors", message)


def test_another_stem_than_that_of_training_is_rejected(tmp_path, tensors):
    save_checkpoint(tmp_path / "x.safetensors", tensors, replace(HEADER, stem_sha256="0" * 64))
    check_rejected(
        tmp_path / "x.safetensors", r"trained with the frozen stem 000000000000…, but contains the stem \(none"
    )


@pytest.mark.parametrize("name", ["hub name", "checkpoint_path", "huge width", "unknown field", "very deep"])
def test_the_command_line_prints_one_line_and_exits_with_1(tmp_path, tensors, capsys, name):
    changes, _ = HEADERS[name]
    write_tensors(tmp_path / "x.safetensors", tensors, KIND, {**to_json_dict(HEADER), "format": FORMAT, **changes})
    assert main(["predict", str(tmp_path / "x.safetensors"), "none.png"]) == 1
    error = capsys.readouterr().err
    assert "x.safetensors" in error
    assert "Traceback" not in error
