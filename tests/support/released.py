"""State dicts under the names and shapes of released checkpoints.

tests/models/released/*.json list them for VMamba, Vim and LocalVim; each file names its source. There is no such list
for MSVMamba, which has no free license. `msvmamba_state` inverts our own renaming instead: a test with it shows that
the two agree, not that the names are right.
"""

import json
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

FOLDER = Path(__file__).parents[1] / "models" / "released"


def released_shapes(name: str) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of all tensors in the released checkpoint of a registered model."""
    tensors = json.loads((FOLDER / f"{name}.json").read_text())["tensors"]
    return {key: tuple(shape) for key, shape in tensors.items()}


def released_state(name: str, depth: int) -> dict[str, Tensor]:
    """Return random tensors for the first `depth` blocks (of each stage) of a released checkpoint, and all the rest."""
    block = re.compile(r"layers\.\d+\.blocks\.(\d+)\." if name.startswith("vmamba") else r"layers\.(\d+)\.")
    generator = torch.Generator().manual_seed(0)
    state = {}
    for key, shape in released_shapes(name).items():
        number = block.match(key)
        if number is None or int(number[1]) < depth:
            state[key] = torch.randn(shape, generator=generator) / 10
    return state


def convert_to_one_file(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a VMamba state as the authors' one-file version has it: other names, and sets stacked in fewer axes."""
    return {
        re.sub(r"\.op\.(x_proj|dt_projs)_weight$", r".op.\1.weight", key): tensor.flatten(0, 1)
        if re.search(r"\.op\.(x_proj|dt_projs)_weight$", key)
        else tensor
        for key, tensor in state.items()
    }


def convert_to_convolutions(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a VMamba state with its linear layers as 1×1 convolutions."""
    return {
        key: tensor[:, :, None, None] if re.search(r"\.(in_proj|out_proj|fc1|fc2)\.weight$", key) else tensor
        for key, tensor in state.items()
    }


def msvmamba_state(model: Any) -> dict[str, Tensor]:
    """Return the weights of an MSVMamba under the published names and shapes."""
    state, own = {}, model.state_dict()
    for name, tensor in own.items():
        if "fine_scan" in name:
            continue
        if "coarse_scan" in name:
            tensor = torch.cat([tensor, own[name.replace("coarse_scan", "fine_scan")]])
        name = re.sub(r"^tokenizer\.stem\.(\d)", lambda m: f"patch_embed.{2 * int(m[1])}", name)
        name = re.sub(r"^stages\.(\d)\.downsample", lambda m: f"layers.{int(m[1]) - 1}.downsample", name)
        name = name.replace("stages.", "layers.").replace("mixer_norm", "norm").replace("ffn_norm", "norm2")
        name = name.replace("mixer.coarse_conv", "op.conv2d_b1").replace("mixer.fine_conv", "op.conv2d")
        name = name.replace("excite.squeeze", "se.fc.0").replace("excite.expand", "se.fc.2").replace("mixer.", "op.")
        name = name.replace("ffn.widen", "convFFN.linear1").replace("ffn.narrow", "convFFN.linear2")
        name = name.replace("ffn.depthwise", "convFFN.dwc")
        name = name.replace("coarse_scan.x_proj", "x_proj_weight").replace("coarse_scan.dt_proj", "dt_projs_weight")
        name = name.replace("coarse_scan.dt_bias", "dt_projs_bias")
        name = name.replace("coarse_scan.A_log", "A_logs").replace("coarse_scan.D", "Ds")
        name = re.sub(r"^(norm|head)\.", r"classifier.\1.", name)
        state[name] = (tensor.flatten(0, 1) if name.endswith(("A_logs", "Ds")) else tensor).clone()
    return state
