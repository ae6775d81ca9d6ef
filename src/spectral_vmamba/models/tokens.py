"""Tokens and their traversal, as they pass through a network."""

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.models.framing import Posed
from spectral_vmamba.ops.frames import Pose
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.traversal import Traversal
from spectral_vmamba.ops.turns import turn

FORMATS = ("NCHW", "NHWC", "NLC")


class GridFeatures(NamedTuple):
    """Features of the tokens of a grid. With a frame, both are in it, and `pose` converts back."""

    x: Float[Tensor, "b l c"]
    grid: Grid
    pose: Pose | None

    def maps(self) -> Float[Tensor, "b c h w"]:
        """Feature maps in the orientation of the original images; cells without a token are zero."""
        maps = self.grid.to_map(self.x)
        if self.pose is None or self.pose.is_exact:
            return self.pose.undo(maps) if self.pose else maps
        # Interpolation mixes cells; those without a token do not count.
        cells = self.grid.to_map(torch.ones_like(self.x[..., :1]))
        shares = self.pose.undo(cells)
        return torch.where(turn(cells, -self.pose.common) > 0, self.pose.undo(maps) / shares.clamp(min=1e-6), 0.0)

    def in_image_order(self) -> Float[Tensor, "b l c"]:
        """The tokens in raster order of the original images."""
        if self.pose is None:
            return self.x
        return self.grid.turn(self.pose.common).from_map(self.maps())

    def in_format(self, output_fmt: str) -> Tensor:
        """The features in a layout that timm names: maps "NCHW" or "NHWC", or "NLC", the tokens in raster order."""
        if output_fmt not in FORMATS:
            raise ValueError(f"expected output_fmt {', '.join(FORMATS)}, got {output_fmt!r}")
        if output_fmt == "NLC":
            return self.in_image_order()
        return self.maps() if output_fmt == "NCHW" else self.maps().movedim(1, -1)


class Tokens(NamedTuple):
    """Token features and their traversal. With a frame, both are in it, and `pose` converts back."""

    x: Float[Tensor, "b l c"]
    traversal: Traversal
    pose: Pose | None

    def to(self, device: torch.device | str) -> "Tokens":
        """Move all tensors to a device."""
        indices = {name: getattr(self.traversal, name).to(device) for name in ("ranks", "content", "orders")}
        pose = None if self.pose is None else self.pose.to(device)
        return Tokens(self.x.to(device), replace(self.traversal, **indices), pose)

    def features(self) -> GridFeatures:
        """The features without the traversal."""
        return GridFeatures(self.x, self.traversal.grid, self.pose)

    def maps(self) -> Float[Tensor, "b c h w"]:
        """Feature maps in the orientation of the original images; cells without a token are zero."""
        return self.features().maps()

    def with_maps(self, maps: Float[Tensor, "b c h w"]) -> "Tokens":
        """Replace the features by those of feature maps in the orientation of the original images.

        If the pose is interpolated, only the difference to `self.maps()` is: unchanged maps give the same features.
        """
        if self.pose is not None and not self.pose.is_exact:
            change = self.traversal.grid.from_map(self.pose.apply(maps - self.maps().detach()))
            return self._replace(x=self.x.detach() + change)
        maps = self.pose.apply(maps) if self.pose else maps
        return self._replace(x=self.traversal.grid.from_map(maps).contiguous())

    def image_traversal(self) -> Traversal:
        """The visiting orders on the grid of the original images."""
        return self.traversal.undo_pose(self.pose) if self.pose else self.traversal


# What a hierarchical network takes: images, images that are in its frame, or the tokens that its tokenizer returned for
# them (from a feature cache).
Inputs = Float[Tensor, "b rgb H W"] | Posed | Tokens

# What the head of a hierarchical network takes: maps of `forward_features`, or tokens of `forward_tokens`.
Features = Float[Tensor, "b c h w"] | Tokens
