"""Networks of about a million parameters that differ from `spectral_vmamba_nano` in one thing, or in several."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from benchmarks.plus.prototypes import (
    Change,
    MixingDownsample,
    conv_mlp,
    downsample_by,
    gated,
    pool_both,
    reflect_padding,
    with_mixed_turns,
    with_places,
    with_radial_path,
    with_rank_embedding,
    with_stem,
)
from spectral_vmamba.layers.downsample import ConvDownsample
from spectral_vmamba.models import create_model

NANO = "spectral_vmamba_nano"
# name → (registered model, its options, changes of its layers)
CANDIDATES: Mapping[str, tuple[str, dict[str, Any], tuple[Change, ...]]] = {
    "nano": (NANO, {}, ()),
    "VMamba, no frame": ("vmamba_nano", {}, ()),
    "VMamba, quarter frame": ("vmamba_nano", {"frame": "quarter"}, ()),
    # stems
    "stem 24+48, depth 1": (NANO, {}, (with_stem((24, 48), 1),)),
    "stem 48+96, depth 0": (NANO, {}, (with_stem((48, 96), 0),)),
    "stem 32+64, depth 1": (NANO, {}, (with_stem((32, 64), 1),)),
    "stem 32+64, depth 2": (NANO, {}, (with_stem((32, 64), 2),)),
    "stem 48+96, depth 1": (NANO, {}, (with_stem((48, 96), 1),)),
    "stem 32+64+128, patch 8, depth 1": (
        NANO,
        {"patch_size": 8, "widths": (96, 192), "depths": (3, 1)},
        (with_stem((32, 64, 128), 1),),
    ),
    "stem with reflected borders": (NANO, {}, (reflect_padding,)),
    "stem 32+64, depth 1, mixed turns": (NANO, {}, (with_mixed_turns((32, 64), 1),)),
    "stem 24+48, depth 0, mixed turns": (NANO, {}, (with_mixed_turns((24, 48), 0),)),
    # width and depth
    "wide and shallow": (NANO, {"widths": (56, 112, 224), "depths": (1, 2, 1)}, ()),
    "narrow and deep": (NANO, {"widths": (40, 80, 160), "depths": (2, 4, 2)}, ()),
    # RFN
    "RFN by mean": (NANO, {"turn_pool": "mean"}, ()),
    "RFN by maximum and mean": (NANO, {}, (pool_both,)),
    "RFN of 8 turns": (NANO, {"turns": 8}, ()),
    "RFN of 12 turns": (NANO, {"turns": tuple(float(angle) for angle in range(0, 360, 30))}, ()),
    "no RFN": (NANO, {"turns": 1}, ()),
    # mixing
    "5×5 mixing": (NANO, {"local_kernel": 5}, ()),
    "depthwise mixing": (NANO, {"local_mixing": "depthwise"}, ()),
    "gated": (NANO, {"expand": 1.5}, (gated,)),
    "convolution in the MLP": (NANO, {}, (conv_mlp,)),
    "mixing before the max-pool": (NANO, {}, (downsample_by(MixingDownsample),)),
    "strided convolution": (NANO, {}, (downsample_by(ConvDownsample),)),
    # orders
    "random orders": (NANO, {"traversal": "random"}, ()),
    "raster orders": (NANO, {"traversal": "cross"}, ()),
    "two eigenvectors": (NANO, {"eigenvectors": 2}, ()),
    "shared directions": (NANO, {"share_directions": True}, ()),
    "all neighbors": (NANO, {"neighbors": "none"}, ()),
    "orders of features and places, half": (NANO, {}, (with_places(0.5),)),
    "orders of features and places": (NANO, {}, (with_places(1.0),)),
    "a radial path": (NANO, {}, (with_radial_path,)),
    # position and domain
    "ranks as features": (NANO, {}, (with_rank_embedding,)),
    "radius embedding": (NANO, {"radius_embedding": True}, ()),
    "disk": (NANO, {"domain": "disk"}, ()),
    "frame moment": (NANO, {"frame": "moment"}, ()),
}


# They change some predictions at quarter turns without a frame.
NOT_INVARIANT_ALONE = frozenset(
    {
        *("VMamba, no frame", "VMamba, quarter frame", "no RFN", "depthwise mixing", "strided convolution"),
        *("random orders", "raster orders"),
    }
)


def build(name: str, classes: int, **changed_options: Any) -> nn.Module:
    model, options, changes = CANDIDATES[name]
    network = create_model(model, num_classes=classes, **{**options, **changed_options})
    for change in changes:
        change(network)
    return network
