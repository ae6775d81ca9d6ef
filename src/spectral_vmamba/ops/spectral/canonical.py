"""Canonical eigenvectors: fix the sign of single eigenvectors and the basis of repeated eigenvalues.

An eigenvector is only defined up to its sign, and the vectors of a repeated eigenvalue only up to a rotation. Both are
solved by choosing an orthonormal basis of the eigenspace: project *probes* onto the eigenspace, one after the other,
and orthonormalize the projections. Probes are functions of a token's content and of its distance from the center alone,
so the result turns with the image.

The paper makes the first non-zero entry positive; "first" in raster order moves when the image turns. The first entry
in an order by content would work, but depends on a single token; a projection weighs all of them.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.ops.native import load_native
from spectral_vmamba.ops.spectral.eigenpairs import CLUSTER
from spectral_vmamba.ops.spectral.eigenspaces import Eigenspace, group_eigenspaces
from spectral_vmamba.ops.spectral.spectral_native import native_signs

# Rounding (1e-14 at most) mixes vectors of separate eigenspaces by 1e-14 over their gap: the accuracy of their entries.
EQUAL_ENTRIES = 1e-14 / CLUSTER
# A probe counts if at least this share of it lies in the eigenspace. For signs, a clear probe precedes a faint one.
SIGNIFICANT, CLEAR = 1e-6, 1e-2
_HIGHEST_DEGREE = 4


def canonical_vectors(
    values: Float[Tensor, "b c"],
    vectors: Float[Tensor, "b c l"],
    trivial: Float[Tensor, "b l"],
    content: Float[Tensor, "b l"],
    squared_radii: Int[Tensor, "l"],
    node_order: Int[Tensor, "b l"],
    count: int,
) -> Float[Tensor, "b m l"]:
    """The first `count` of ascending eigenpairs with canonical signs and bases.

    Pairs beyond the `count`-th must include the rest of its eigenspace. `node_order` decides where no probe can
    (perfect symmetry): every choice is then correct up to that symmetry.
    """
    chosen = vectors[:, :count]
    if count == 0 or vectors.shape[0] == 0:
        return chosen
    signed = chosen * _signs(chosen, trivial, content, squared_radii, node_order)[..., None]
    close = values.diff(dim=-1)[:, :count] <= CLUSTER
    for image in close.any(-1).nonzero().flatten().tolist():
        spaces = group_eigenspaces(values[image], vectors[image], count)
        evidence = (trivial[image], content[image], squared_radii, node_order[image])
        signed[image] = canonical_eigenspaces(spaces, *evidence, count)
    return signed


def canonical_eigenspaces(
    spaces: list[Eigenspace],
    trivial: Float[Tensor, "l"],
    content: Float[Tensor, "l"],
    squared_radii: Int[Tensor, "l"],
    node_order: Int[Tensor, "l"],
    count: int,
) -> Float[Tensor, "m l"]:
    """The same as `canonical_vectors` for the complete eigenspaces of one image, in ascending order."""
    if all(space.dimension == 1 for space in spaces):
        vectors = torch.stack([space.only_vector() for space in spaces])
        evidence = (trivial[None], content[None], squared_radii, node_order[None])
        return vectors * _signs(vectors[None], *evidence)[0, :, None]
    probes = content_probes(trivial[None], content[None], squared_radii)[0]
    bases = []
    for space in spaces:
        bases.append(_basis(space, probes, node_order, min(space.dimension, count)))
        count -= len(bases[-1])
    return torch.cat(bases)


def eigenspace_end(values: Float[Tensor, "b c"], count: int) -> Int[Tensor, "b"]:
    """How many of the ascending values belong to the first `count` or to the eigenspace of the `count`-th."""
    breaks = values.diff(dim=-1)[:, count - 1 :] > CLUSTER
    return count + breaks.logical_not().cumprod(-1).sum(-1)


def content_probes(trivial: Tensor, content: Tensor, squared_radii: Tensor) -> Float[Tensor, "b p l"]:
    """√degree · contentⁱ · radiusʲ, i + j = 1, 2, …, orthogonal to the trivial vector, of length one (or zero)."""
    content, radius = _standardize(content), _standardize(squared_radii.to(content).expand(content.shape))
    contents, radii = _powers(content), _powers(radius)
    exponents = [(total - j, j) for total in range(1, _HIGHEST_DEGREE + 1) for j in range(total + 1)]
    probes = torch.stack([contents[i] * radii[j] for i, j in exponents], dim=1) * trivial[:, None]
    probes = probes - (probes @ trivial[:, :, None]) * trivial[:, None]
    norm = probes.norm(dim=-1, keepdim=True)
    return torch.where(norm > SIGNIFICANT, probes / norm, 0.0)


def _powers(values: Tensor) -> list[Tensor]:
    powers = [torch.ones_like(values)]
    for _ in range(_HIGHEST_DEGREE):
        powers.append(powers[-1] * values)
    return powers


def _standardize(values: Tensor) -> Tensor:
    centered = values - values.mean(-1, keepdim=True)
    largest = centered.abs().amax(-1, keepdim=True)
    return torch.where(largest > 0, centered / largest, 0.0)


def _signs(vectors, trivial, content, squared_radii, node_order) -> Float[Tensor, "b m"]:
    if vectors.device.type == "cpu" and load_native().library is not None:
        evidence = (trivial, content, squared_radii, node_order)
        return native_signs(vectors, *evidence, SIGNIFICANT, CLEAR, _HIGHEST_DEGREE)
    return signs_by_probes(vectors, content_probes(trivial, content, squared_radii), node_order)


def signs_by_probes(vectors: Float[Tensor, "b m l"], probes: Tensor, node_order: Tensor) -> Float[Tensor, "b m"]:
    """The sign that agrees with the first clear probe; else with the first clear node, faint probe, faint node."""
    in_order = vectors.gather(-1, node_order[:, None].expand(vectors.shape))
    evidence = torch.cat([vectors @ probes.mT, in_order], dim=-1)
    size = evidence.abs()
    strength = (size > SIGNIFICANT).to(torch.uint8) + (size > CLEAR)
    first = strength.argmax(-1, keepdim=True)
    return torch.where(evidence.gather(-1, first) < 0, -1.0, 1.0).squeeze(-1).to(vectors)


def _basis(space: Eigenspace, probes: Tensor, node_order: Tensor, needed: int) -> Float[Tensor, "s l"]:
    """Gram-Schmidt over the projections of the probes, then of single nodes.

    A node counts if the squared length that is left of its projection is significant, which the diagonals tell.
    """
    chosen = probes.new_zeros(0, probes.shape[-1])
    for candidate in space.project(probes):
        if len(chosen) == needed:
            break
        rest = _remainder(candidate, chosen)
        if rest.norm() > SIGNIFICANT:
            chosen = torch.cat([chosen, (rest / rest.norm())[None]])
    diagonal = space.diagonal() if len(chosen) < needed else None
    while diagonal is not None and len(chosen) < needed:
        left = (diagonal - chosen.square().sum(0))[node_order]
        node = node_order[(left > SIGNIFICANT**2).to(torch.uint8).argmax()]
        rest = _remainder(space.project(torch.zeros_like(diagonal).index_fill(0, node, 1.0)[None])[0], chosen)
        chosen = torch.cat([chosen, (rest / rest.norm())[None]])
    return chosen


def _remainder(candidate: Tensor, chosen: Tensor) -> Tensor:
    """What is left of a vector after the orthonormal ones; twice, because the first time leaves rounding."""
    rest = candidate - (chosen @ candidate) @ chosen
    return rest - (chosen @ rest) @ chosen
