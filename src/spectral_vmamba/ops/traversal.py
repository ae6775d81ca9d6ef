"""Traversal: the visiting orders of a batch, computed once and passed down the network as a value."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.ops.frames.pose import Pose
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.orders import Pattern, pattern_orders, random_permutations
from spectral_vmamba.ops.ranks import hash_ranks, tied_ranks

# Windows pool 1 to 9 tokens; 2520 is divisible by each, so means of integers stay integers.
_WINDOW_MULTIPLE = 2520


@dataclass(frozen=True)
class Traversal:
    """2m visiting orders of the tokens of `grid`: path 2j ascends along eigenvector j, path 2j+1 descends.

    `ranks` are the positions of the tokens along each eigenvector (equal values share a rank) and `content` ranks the
    tokens by their features. All are integers: pooling and sorting them is exact on every device and in every batch.
    """

    grid: Grid
    ranks: Int[Tensor, "b m l"]
    content: Int[Tensor, "b l"]
    orders: Int[Tensor, "b k l"]

    @classmethod
    def from_ranks(cls, grid: Grid, ranks: Int[Tensor, "b m l"], content: Int[Tensor, "b l"]) -> "Traversal":
        return cls(grid, ranks, content, visiting_orders(ranks, content, grid.squared_radii().to(ranks.device)))

    @property
    def inverses(self) -> Int[Tensor, "b k l"]:
        """The step at which each token is visited."""
        return self.orders.argsort(-1)

    def pool(self, strength: Float[Tensor, "b l"]) -> "Traversal":
        """The traversal of the halved grid: each window takes the ranks of its strongest token.

        Among equally strong tokens the one with the highest content rank wins, and content ranks are averaged. The
        result does not depend on the order in which a window is read. Overlapping windows can take the same token;
        content then separates them (hashed low bits keep different windows from averaging to the same number).
        """
        windows = self.grid.windows().to(strength.device)
        strength = _window_values(strength, windows, float("-inf"))
        content = _window_values(self.content, windows, -1)
        wins = strength == strength.amax(-1, keepdim=True)
        wins_by_content = torch.where(wins, content, -1)
        wins = wins_by_content == wins_by_content.amax(-1, keepdim=True)
        lowest = torch.iinfo(torch.int64).min
        ranks = torch.where(wins[:, None], _window_values(self.ranks, windows, lowest), lowest).amax(-1)
        count = (windows < self.content.shape[-1]).sum(-1)
        total = _window_values((self.content << 20) + hash_ranks(self.content), windows, 0).sum(-1)
        return Traversal.from_ranks(self.grid.halve(), ranks, tied_ranks(total * (_WINDOW_MULTIPLE // count)))

    def select(self, tokens: Int[Tensor, "l_half"]) -> "Traversal":
        """The traversal of the halved grid, whose tokens are these ones."""
        return Traversal.from_ranks(self.grid.halve(), self.ranks[..., tokens], self.content[:, tokens])

    def undo_pose(self, pose: Pose) -> "Traversal":
        """The same traversal on the grid of the original images.

        A rotation between quarter turns moves tokens between cells: cells are visited in the order of the steps at the
        places that they came from.
        """
        if not pose.is_exact:
            rotation, quarters = pose.split()
            steps = self.grid.from_map(rotation.undo(self.grid.to_map(self.inverses.mT.float()))).mT
            orders = steps.argsort(dim=-1, stable=True)
            ranks = orders[:, :: orders.shape[1] // self.ranks.shape[1]].argsort(-1)
            return Traversal(self.grid, ranks, torch.zeros_like(self.content), orders).undo_pose(quarters)
        grid = self.grid.turn(pose.common)
        numbers = torch.arange(self.content.shape[-1], device=self.content.device)
        numbers = self.grid.to_map(numbers[None, :, None].expand(len(self.content), -1, 1))
        sources = grid.from_map(pose.undo(numbers))[..., 0]
        targets = sources.argsort(-1)[:, None].expand(self.orders.shape)
        ranks = self.ranks.gather(-1, sources[:, None].expand(self.ranks.shape))
        return Traversal(grid, ranks, self.content.gather(-1, sources), targets.gather(-1, self.orders))


@dataclass(frozen=True)
class PatternTraversal(Traversal):
    """The orders of a pattern (see `ops.orders`): the same for every image, recomputed on each halved grid."""

    pattern: Pattern = "cross"

    @classmethod
    def from_pattern(cls, pattern: Pattern, grid: Grid, batch: int, device: torch.device) -> "PatternTraversal":
        orders = pattern_orders(pattern, grid).to(device).expand(batch, -1, -1).contiguous()
        content = torch.zeros(batch, orders.shape[-1], dtype=torch.int64, device=device)
        return cls(grid, orders.argsort(-1), content, orders, pattern)

    def pool(self, strength: Float[Tensor, "b l"]) -> "PatternTraversal":
        return PatternTraversal.from_pattern(self.pattern, self.grid.halve(), strength.shape[0], strength.device)

    def select(self, tokens: Int[Tensor, "l_half"]) -> "PatternTraversal":
        return PatternTraversal.from_pattern(self.pattern, self.grid.halve(), self.orders.shape[0], tokens.device)


def visiting_orders(
    ranks: Int[Tensor, "b m l"], content: Int[Tensor, "b l"], squared_radii: Int[Tensor, "l"]
) -> Int[Tensor, "b k l"]:
    """Sort along every eigenvector, up and down; break ties by content, then by distance from the center.

    Descending orders sort the negated ranks instead of reversing the ascending order: when an eigenvector changes its
    sign, its two paths then swap exactly, ties included.
    """
    both_ways = torch.stack([ranks, -ranks], dim=2).flatten(1, 2)
    canonical = canonical_node_order(content, squared_radii)[:, None].expand(both_ways.shape)
    return canonical.gather(-1, both_ways.gather(-1, canonical).argsort(dim=-1, stable=True))


def canonical_node_order(content: Int[Tensor, "b l"], squared_radii: Int[Tensor, "l"]) -> Int[Tensor, "b l"]:
    """Sort the tokens by content, then by distance from the center.

    Raster order decides only between tokens that agree in both, which a symmetry of the image maps to each other.
    """
    by_radius = squared_radii.argsort(dim=0, stable=True)
    return by_radius[content[:, by_radius].argsort(dim=-1, stable=True)]


def random_traversal(grid: Grid, batch: int, eigenvectors: int, seed: int, device: torch.device) -> Traversal:
    """Random orders, the same for every image and run: the paper's ablation of STS."""
    ranks = random_permutations(len(grid.cells()), eigenvectors, seed).to(device)
    content = torch.zeros(batch, ranks.shape[-1], dtype=torch.int64, device=device)
    return Traversal.from_ranks(grid, ranks.expand(batch, -1, -1), content)


def _window_values(values: Tensor, windows: Int[Tensor, "l_half w"], absent: float | int) -> Tensor:
    """(…, l) → (…, l_half, w), with `absent` where a window reaches past the tokens."""
    padding = values.new_full((*values.shape[:-1], 1), absent)
    return torch.cat([values, padding], dim=-1).index_select(-1, windows.flatten()).unflatten(-1, windows.shape)
