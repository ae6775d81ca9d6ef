"""One answer for every eigenspace, however the solver happened to return it and however the tokens are numbered."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.ops.spectral import canonical as canonical_module
from spectral_vmamba.ops.spectral import canonical_vectors
from spectral_vmamba.ops.spectral.canonical import eigenspace_end, signs_by_probes
from spectral_vmamba.ops.spectral.spectral_native import native_signs
from tests.support.native import needs_native

TOKENS, COUNT = 16, 5


def random_eigenpairs(seed, values):
    """Orthonormal vectors orthogonal to a positive trivial one, with the given eigenvalues."""
    generator = torch.Generator().manual_seed(seed)
    trivial = torch.rand(TOKENS, generator=generator).double() + 0.5
    trivial = trivial / trivial.norm()
    frame = torch.cat([trivial[:, None], torch.randn(TOKENS, len(values), generator=generator).double()], 1)
    vectors = torch.linalg.qr(frame).Q.T[1:]
    content = torch.rand(TOKENS, generator=generator).double()
    return torch.tensor(values).double(), vectors, trivial, content


def canonical(values, vectors, trivial, content, radii, count=COUNT):
    order = content.argsort()
    return canonical_vectors(values[None], vectors[None], trivial[None], content[None], radii, order[None], count)[0]


RADII = torch.arange(TOKENS) % 5


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**16))
def test_signs_do_not_depend_on_the_solvers(seed):
    values, vectors, trivial, content = random_eigenpairs(seed, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    signs = torch.randint(0, 2, (6, 1), generator=torch.Generator().manual_seed(seed)).double() * 2 - 1
    first, second = (canonical(values, v, trivial, content, RADII) for v in (vectors, vectors * signs))
    assert torch.equal(first, second)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**16))
def test_bases_of_repeated_values_do_not_depend_on_the_solvers(seed):
    values, vectors, trivial, content = random_eigenpairs(seed, [0.1, 0.2, 0.2, 0.2, 0.5, 0.5])
    generator = torch.Generator().manual_seed(seed)
    mixed = vectors.clone()
    for space in (slice(1, 4), slice(4, 6)):
        size = space.stop - space.start
        mixed[space] = torch.linalg.qr(torch.randn(size, size, generator=generator).double()).Q @ vectors[space]
    first, second = (canonical(values, v, trivial, content, RADII) for v in (vectors, mixed))
    torch.testing.assert_close(first, second, rtol=0, atol=1e-9)
    torch.testing.assert_close(first @ first.T, torch.eye(COUNT).double(), rtol=0, atol=1e-9)
    projector = first[1:4].T @ first[1:4]
    torch.testing.assert_close(projector, vectors[1:4].T @ vectors[1:4], rtol=0, atol=1e-9)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**16))
def test_renumbering_the_tokens_renumbers_the_vectors(seed):
    values, vectors, trivial, content = random_eigenpairs(seed, [0.1, 0.2, 0.2, 0.2, 0.5, 0.6])
    names = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(seed))
    here = canonical(values, vectors, trivial, content, RADII)
    there = canonical(values, vectors[:, names], trivial[names], content[names], RADII[names])
    torch.testing.assert_close(there, here[:, names], rtol=0, atol=1e-9)


@needs_native
@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**16),
    kind=st.sampled_from(["varied", "nearly flat", "flat"]),
    clear=st.sampled_from([canonical_module.CLEAR, 2.0]),
)
def test_signs_in_c_are_those_of_the_probes(seed, kind, clear):
    """Flat images leave the probes nothing to say; with 2.0 no witness is clear, and the first faint one counts."""
    pairs = [random_eigenpairs(seed + i, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) for i in range(3)]
    _, vectors, trivial, content = (torch.stack(part) for part in zip(*pairs, strict=True))
    radii = RADII
    if kind == "nearly flat":
        content, radii = 1e-5 * content, torch.ones_like(RADII)
        content[:, 3] = 1.0
    if kind == "flat":
        content, radii = torch.ones_like(content), torch.ones_like(RADII)
    order = torch.rand(content.shape, generator=torch.Generator().manual_seed(seed)).argsort(-1)
    limits = (canonical_module.SIGNIFICANT, clear, canonical_module._HIGHEST_DEGREE)
    for chosen in (vectors[:, :4], vectors[..., :4, :].flip(-2)):
        found = native_signs(chosen, trivial, content, radii, order, *limits)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(canonical_module, "CLEAR", clear)
            expected = signs_by_probes(chosen, canonical_module._probes(trivial, content, radii), order)
        assert torch.equal(found, expected)


def test_content_that_says_nothing_leaves_it_to_the_first_node():
    values, vectors, trivial, _ = random_eigenpairs(0, [0.1, 0.2, 0.3])
    flat = torch.ones(TOKENS).double()
    same_radius = torch.ones(TOKENS, dtype=torch.int64)
    for signed in (vectors, -vectors):
        out = canonical_vectors(
            values[None], signed[None], trivial[None], flat[None], same_radius, torch.arange(TOKENS)[None], 3
        )
        assert (out[0, :, 0] > 0).all()


def test_eigenspace_end():
    values = torch.tensor(
        [[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.2, 0.4], [0.1, 0.2, 0.2, 0.2], [0.1, 0.1, 0.2, 0.2]]
    ).double()
    assert eigenspace_end(values, 2).tolist() == [2, 3, 4, 2]


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_to_do(count):
    out = canonical_vectors(
        torch.zeros(0, 2).double(),
        torch.zeros(0, 2, 4).double(),
        torch.zeros(0, 4).double(),
        torch.zeros(0, 4).double(),
        torch.zeros(4, dtype=torch.int64),
        torch.zeros(0, 4, dtype=torch.int64),
        count,
    )
    assert out.shape == (0, count, 4)
