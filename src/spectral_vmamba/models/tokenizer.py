"""Tokenizers: from pixels to tokens and their visiting orders."""

from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.layers import RotationalFeatureNormalizer
from spectral_vmamba.models.framing import Posed, check_and_enter_frame, enter_frame
from spectral_vmamba.models.input_checks import check_images
from spectral_vmamba.models.network_config import NetworkConfig
from spectral_vmamba.models.spectral_config import SpectralConfig
from spectral_vmamba.models.stem_factory import build_stem
from spectral_vmamba.models.tokens import GridFeatures, Tokens
from spectral_vmamba.models.upright import UprightScore, upright_frame
from spectral_vmamba.ops.frames import Pose
from spectral_vmamba.ops.grid import Domain, Grid
from spectral_vmamba.ops.orders import Pattern
from spectral_vmamba.ops.spectral import spectral_traversal
from spectral_vmamba.ops.traversal import PatternTraversal, Traversal, random_traversal
from spectral_vmamba.ops.turns import mask_outside_disk


class SpectralTokenizer(nn.Module):
    """The frame, then RFN (`features`), then STS (`traverse`)."""

    def __init__(self, config: SpectralConfig, in_chans: int = 3):
        super().__init__()
        self.config = config
        self.in_chans = in_chans
        self.patch_size = config.patch_size
        self.domain: Domain = config.domain
        self.rules = config.rules
        stem = build_stem(config, in_chans)
        self.channels = stem.channels
        self.finer_channels = stem.finer_channels if config.pyramid else ()
        self.rfn = RotationalFeatureNormalizer(stem, config.patch_size, config.turns, config.turn_pool)
        self.upright = UprightScore(stem.channels) if config.frame == "upright" else None

    @property
    def is_fixed(self) -> bool:
        """Whether the tokens and orders of an image stay the same during training, so that they can be cached."""
        frozen = not any(parameter.requires_grad for parameter in self.rfn.parameters())
        return frozen and self.config.turns != "random" and self.config.has_fixed_orders

    def forward(self, images: Float[Tensor, "b rgb H W"] | Posed) -> Tokens:
        tokens, grid, pose = self.features(images)
        return Tokens(tokens, self.traverse(tokens, grid), pose)

    def features(self, images: Float[Tensor, "b rgb H W"] | Posed) -> tuple[Float[Tensor, "b l c"], Grid, Pose | None]:
        """Return the RFN features as tokens, their grid, and the pose of the images, None without a frame."""
        images, pose = self.stem_input(images)
        maps = self.rfn(images)
        grid = self._grid(images, maps, self.patch_size)
        return grid.from_map(maps), grid, pose

    def forward_maps(self, images: Float[Tensor, "b rgb H W"] | Posed) -> tuple[Tokens, list[GridFeatures]]:
        """Also return the RFN features of the stem's maps that are finer than a patch."""
        images, pose = self.stem_input(images)
        maps = self.rfn.forward_maps(images)
        strides = (*self.config.finer_strides, self.patch_size)
        grids = [self._grid(images, each, stride) for each, stride in zip(maps, strides, strict=True)]
        *finer, (x, grid, _) = [
            GridFeatures(grid.from_map(each), grid, pose) for each, grid in zip(maps, grids, strict=True)
        ]
        return Tokens(x, self.traverse(x, grid), pose), finer

    def _grid(self, images: Tensor, maps: Tensor, stride: int) -> Grid:
        return Grid(maps.shape[-2], maps.shape[-1], self.config.domain, diameter=min(images.shape[-2:]) / stride)

    def stem_input(self, images: Float[Tensor, "b rgb H W"] | Posed) -> Posed:
        """Return the images as the RFN sees them: masked, and in their frame.

        Images for which this gives the same bits have the same features.
        """
        if isinstance(images, Posed):
            return images
        check_images(images, self.in_chans, self.patch_size)
        if self.config.domain == "disk":  # before the frame is chosen, which must not depend on the corners
            images = mask_outside_disk(images)
        if self.config.frame == "upright":
            assert self.upright is not None
            return Posed(*upright_frame(images, self.upright, self.rfn.bare_features))
        return enter_frame(images, self.config.frame)

    def traverse(self, tokens: Float[Tensor, "b l c"], grid: Grid) -> Traversal:
        """Return the visiting orders of the tokens."""
        config = self.config
        if config.traversal == "random":
            return random_traversal(grid, tokens.shape[0], config.eigenvectors, config.seed, tokens.device)
        if config.traversal != "spectral":
            return PatternTraversal.from_pattern(config.traversal, grid, tokens.shape[0], tokens.device)
        return spectral_traversal(tokens, grid, config.eigenvectors, config.neighbors, config.solver, self.rules)


class PatternTokenizer(nn.Module):
    """The frame, if the network has one, then a stem; visiting orders that are the same for every image."""

    domain: Domain = "square"
    finer_channels: tuple[int, ...] = ()  # patches of 4 × 4 px: no map of a decoder is finer

    def __init__(self, config: NetworkConfig, stem: nn.Module, in_chans: int, patch_size: int, orders: Pattern):
        super().__init__()
        self.config = config
        self.stem = stem
        self.in_chans = in_chans
        self.patch_size = patch_size
        self.orders = orders

    def forward(self, images: Float[Tensor, "b rgb H W"] | Posed) -> Tokens:
        images, pose = self.stem_input(images)
        maps = self.stem(images)
        grid = Grid(maps.shape[-2], maps.shape[-1])
        traversal = PatternTraversal.from_pattern(self.orders, grid, maps.shape[0], maps.device)
        return Tokens(grid.from_map(maps), traversal, pose)

    def stem_input(self, images: Float[Tensor, "b rgb H W"] | Posed) -> Posed:
        """Return the images as the stem sees them: in their frame."""
        return check_and_enter_frame(images, self.config.frame, self.in_chans, self.patch_size)
