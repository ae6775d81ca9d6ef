"""The way from pixels to tokens and their visiting orders: canonical frame → RFN → STS."""

from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.layers import RotationalFeatureNormalizer
from spectral_vmamba.models.inputs import check_images
from spectral_vmamba.models.spectral_config import SpectralConfig
from spectral_vmamba.models.stem_factory import build_stem
from spectral_vmamba.models.tokens import Tokens
from spectral_vmamba.ops.grid import Grid, mask_outside_circle
from spectral_vmamba.ops.orders import Pattern
from spectral_vmamba.ops.spectral import spectral_traversal
from spectral_vmamba.ops.traversal import PatternTraversal, Traversal, random_traversal
from spectral_vmamba.ops.turns import Frame, canonical_frame


class SpectralTokenizer(nn.Module):
    def __init__(self, config: SpectralConfig, in_chans: int = 3):
        super().__init__()
        self.config = config
        self.in_chans = in_chans
        stem = build_stem(config, in_chans)
        self.channels = stem.channels
        self.rfn = RotationalFeatureNormalizer(stem, config.patch_size, config.rotations)

    @property
    def is_fixed(self) -> bool:
        """Whether an image's tokens and orders stay the same while the network learns, so that they can be kept."""
        frozen = not any(parameter.requires_grad for parameter in self.rfn.parameters())
        return frozen and self.config.rotations != "random"

    def forward(self, images: Float[Tensor, "b rgb H W"]) -> Tokens:
        tokens, grid, frame = self.features(images)
        return Tokens(tokens, self.traverse(tokens, grid), frame)

    def features(self, images: Float[Tensor, "b rgb H W"]) -> tuple[Float[Tensor, "b l c"], Grid, Frame | None]:
        check_images(images, self.in_chans, self.config.patch_size)
        frame = None
        if self.config.domain == "disk":  # before the frame is chosen: corners do not count at all
            images = mask_outside_circle(images)
        if self.config.canonical_frame:
            images, frame = canonical_frame(images)
        maps = self.rfn(images)
        diameter = min(images.shape[-2:]) / self.config.patch_size
        grid = Grid(maps.shape[-2], maps.shape[-1], self.config.domain, diameter=diameter)
        return grid.from_map(maps), grid, frame

    def traverse(self, tokens: Float[Tensor, "b l c"], grid: Grid) -> Traversal:
        config = self.config
        if config.traversal == "random":
            return random_traversal(grid, tokens.shape[0], config.eigenvectors, config.seed, tokens.device)
        if config.traversal != "spectral":
            return PatternTraversal.of(config.traversal, grid, tokens.shape[0], tokens.device)
        return spectral_traversal(tokens, grid, config.eigenvectors, config.neighbors, config.solver)


class PatternTokenizer(nn.Module):
    """A stem, and the same visiting orders for every image."""

    def __init__(self, stem: nn.Module, in_chans: int, patch_size: int, orders: Pattern):
        super().__init__()
        self.stem = stem
        self.in_chans = in_chans
        self.patch_size = patch_size
        self.orders = orders

    def forward(self, images: Float[Tensor, "b rgb H W"]) -> Tokens:
        check_images(images, self.in_chans, self.patch_size)
        maps = self.stem(images)
        grid = Grid(maps.shape[-2], maps.shape[-1])
        return Tokens(grid.from_map(maps), PatternTraversal.of(self.orders, grid, maps.shape[0], maps.device), None)
