"""The way from pixels to tokens and their visiting orders: canonical frame → RFN → STS."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.layers import RotationalFeatureNormaliser
from spectral_vmamba.models.config import SpectralConfig
from spectral_vmamba.models.inputs import check_images
from spectral_vmamba.models.stems import build_stem
from spectral_vmamba.ops.grid import Grid, mask_outside_circle
from spectral_vmamba.ops.spectral import spectral_traversal
from spectral_vmamba.ops.traversal import Traversal, random_traversal
from spectral_vmamba.ops.turns import Frame, canonical_frame


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


class SpectralEmbedding(nn.Module):
    def __init__(self, config: SpectralConfig, in_chans: int = 3):
        super().__init__()
        self.config = config
        self.in_chans = in_chans
        stem = build_stem(config, in_chans)
        self.channels = stem.channels
        self.rfn = RotationalFeatureNormaliser(stem, config.patch_size, config.rotations)

    def forward(self, images: Float[Tensor, "b rgb H W"]) -> Tokens:
        check_images(images, self.in_chans)
        frame = None
        if self.config.canonical_frame:
            images, frame = canonical_frame(images)
        if self.config.domain == "disk":
            images = mask_outside_circle(images)
        maps = self.rfn(images)
        diameter = min(images.shape[-2:]) / self.config.patch_size
        grid = Grid(maps.shape[-2], maps.shape[-1], self.config.domain, diameter=diameter)
        tokens = grid.from_map(maps)
        return Tokens(tokens, self.traverse(tokens, grid), frame)

    def traverse(self, tokens: Float[Tensor, "b l c"], grid: Grid) -> Traversal:
        config = self.config
        if config.traversal == "random":
            return random_traversal(grid, tokens.shape[0], config.eigenvectors, config.seed, tokens.device)
        return spectral_traversal(tokens, grid, config.eigenvectors, config.neighbors, config.solver)
