"""Turning images and maps: quarter turns exactly, other angles by bilinear interpolation, and the canonical frame.

`quarters` counts counterclockwise quarter turns, as in `torch.rot90`; angles are counterclockwise degrees.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor


def turn(maps: Tensor, quarters: int) -> Tensor:
    """Quarter turns of (…, h, w), contiguous: the kernels behind then take the same path for every turn."""
    return torch.rot90(maps, quarters, (-2, -1)).contiguous()


def rotate(
    maps: Float[Tensor, "b c h w"], degrees: float | Tensor, outside: Literal["zeros", "reflection"] = "zeros"
) -> Float[Tensor, "b c h w"]:
    """Turn about the center on the same canvas, bilinear; outside of it are zeros, or its own mirror image.

    In float32 at least: half precision cannot tell neighboring pixels' coordinates apart.
    """
    dtype = torch.promote_types(maps.dtype, torch.float32)
    height, width = maps.shape[-2:]
    radians = torch.deg2rad(torch.as_tensor(degrees, dtype=dtype, device=maps.device))
    cos, sin = torch.cos(radians), torch.sin(radians)
    aspect = height / width
    zero = torch.zeros_like(cos)
    # Output → input coordinates, each axis in units of its own half side; y points down.
    affine = torch.stack([torch.stack([cos, -sin * aspect, zero]), torch.stack([sin / aspect, cos, zero])])
    grid = F.affine_grid(affine.expand(maps.shape[0], 2, 3), list(maps.shape), align_corners=False)
    turned_maps = F.grid_sample(maps.to(dtype), grid, mode="bilinear", padding_mode=outside, align_corners=False)
    return turned_maps.to(maps.dtype)


def turned(images: Tensor, degrees: float) -> Tensor:
    """`turn` for multiples of 90°, `rotate` for any other angle."""
    if degrees % 90 == 0:
        return turn(images, round(degrees / 90) % 4)
    return rotate(images, degrees)


@dataclass(frozen=True)
class Frame:
    """The quarter turns that brought a batch into its canonical frame: `common` for all, then `own` for each image."""

    common: int
    own: Int[Tensor, "b"]
    step: int  # own turns are multiples of this: 1 on squares, 2 (half turns) otherwise

    def undo(self, maps: Shaped[Tensor, "b c h w"]) -> Shaped[Tensor, "b c h2 w2"]:
        """Turn maps computed in the canonical frame back into the frame of the images."""
        candidates = [turn(maps, -quarters) for quarters in range(0, 4, self.step)]
        return turn(_pick(candidates, self.own // self.step), -self.common)


def canonical_frame(images: Float[Tensor, "b c h w"]) -> tuple[Float[Tensor, "b c h2 w2"], Frame]:
    """Turn each image to the quarter turn whose pixels, read in order, are lexicographically largest.

    All quarter turns of an image end as the same bits: candidates tie only when they are the same image. No sum is
    taken, so no rounding, and an image's frame cannot depend on its batch mates. Non-square images are laid in
    landscape first and then only differ by a half turn.
    """
    height, width = images.shape[-2:]
    common = int(height > width)
    step = 1 if height == width else 2
    upright = turn(images, common)
    candidates = [turn(upright, quarters) for quarters in range(0, 4, step)]
    best = torch.zeros(images.shape[0], dtype=torch.int64, device=images.device)
    for challenger in range(1, len(candidates)):
        wins = _lexicographically_greater(candidates[challenger], _pick(candidates, best))
        best = torch.where(wins, challenger, best)
    return _pick(candidates, best), Frame(common, best * step, step)


def _pick(candidates: list[Tensor], index: Int[Tensor, "b"]) -> Tensor:
    image = torch.arange(index.shape[0], device=index.device)
    return torch.stack(candidates)[index, image]


def _lexicographically_greater(a: Tensor, b: Tensor) -> Tensor:
    a, b = a.flatten(1), b.flatten(1)
    first_difference = (a != b).to(torch.uint8).argmax(dim=1, keepdim=True)
    return (a.gather(1, first_difference) > b.gather(1, first_difference)).squeeze(1)
