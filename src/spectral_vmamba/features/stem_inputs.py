"""Which views the stem need not process again, because it sees the same bits of them."""

from hashlib import sha256

from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.models import SpectralTokenizer
from spectral_vmamba.models.framing import Posed


def digest_stem_inputs(tokenizer: SpectralTokenizer, images: Float[Tensor, "b rgb H W"] | Posed) -> list[bytes]:
    """Identify what the stem sees of each image. The mask and the frame are computed, not assumed."""
    seen, _ = tokenizer.stem_input(images)
    return [sha256(image.numpy().data).digest() for image in seen.cpu().contiguous()]


def distinct_stem_inputs(
    tokenizer: SpectralTokenizer, images: Float[Tensor, "b rgb H W"] | Posed
) -> tuple[list[int], list[int]]:
    """Return the first image of each distinct stem input, and for every image the place of its own in that list."""
    digests = digest_stem_inputs(tokenizer, images)
    place = {digest: i for i, digest in enumerate(dict.fromkeys(digests))}
    return [digests.index(digest) for digest in place], [place[digest] for digest in digests]
