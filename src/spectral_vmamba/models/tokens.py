"""Tokens on their way through a network."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.ops.traversal import Traversal
from spectral_vmamba.ops.turns import Frame


class Tokens(NamedTuple):
    """Token features and their traversal, in the canonical frame if there is one; `frame` leads back to the images'."""

    x: Float[Tensor, "b l c"]
    traversal: Traversal
    frame: Frame | None

    def maps(self) -> Float[Tensor, "b c h w"]:
        """Feature maps that lie on the images as they were given."""
        maps = self.traversal.grid.to_map(self.x)
        return self.frame.undo(maps) if self.frame else maps

    def in_image_order(self) -> Float[Tensor, "b l c"]:
        """The tokens in raster order of the images as they were given."""
        if self.frame is None:
            return self.x
        return self.traversal.grid.turned(self.frame.common).from_map(self.maps())

    def image_traversal(self) -> Traversal:
        """The visiting orders on the grid of the images as they were given."""
        return self.traversal.in_frame_of(self.frame) if self.frame else self.traversal
