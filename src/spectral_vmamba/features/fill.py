"""Computing the rows that a cache has not got: every process takes images of its own, from file to features."""

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.loader import one_thread
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.features.cached_views import Views
from spectral_vmamba.features.feature_store import FeatureCache
from spectral_vmamba.models import SpectralTokenizer
from spectral_vmamba.utils.interruption import Interrupted, interruptible

_TOGETHER = 32  # views that go through the stem at once
_BLOCK_ROWS = 512
_FILES = 4096  # that are asked for at once


@dataclass(frozen=True)
class Request:
    """Images, the digests of their contents (None for unreadable ones), and the views to cache."""

    images: ImageDataset
    digests: Sequence[bytes | None]
    views: Views

    def keys(self, i: int) -> list[bytes]:
        digest = self.digests[i]
        return [] if digest is None else self.views.keys(digest)

    def all_keys(self) -> Iterator[bytes]:
        return (key for i in range(len(self.images)) for key in self.keys(i))


def request_views(images: ImageDataset, views: Views, cache: FeatureCache) -> Request:
    """Reads every image's file once, to know its content."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        some = (range(i, min(i + _FILES, len(images))) for i in range(0, len(images), _FILES))
        digests = (digest for numbers in some for digest in pool.map(lambda i: _digest(images, i), numbers))
        return Request(images, list(cache.progress(digests, "looking for changed images", len(images))), views)


def _digest(images: ImageDataset, i: int) -> bytes | None:
    try:
        return images.digest(i)
    except ValueError:
        return None


def fill(cache: FeatureCache, requests: Sequence[Request], workers: int, mine: int = 0, of: int = 1) -> int:
    """Compute and keep what is missing; the number of rows that were to be computed. Of several processes each takes
    its share, by the images' contents: they need not agree on what is missing.

    Ctrl-C keeps what was computed. ImageDataset that cannot be read get no rows.
    """
    work = [task for request in requests for task in _missing(cache, request)]
    rows = sum(len(task.keys) for task in work)
    _announce(cache, requests, rows)
    device = next(cache.tokenizer.parameters()).device
    compute = _Compute(cache.tokenizer, cache.preprocessing)
    in_workers = device.type == "cpu" and workers > 0
    loader = DataLoader(
        _Computed(_groups([task for task in work if task.digest[0] % of == mine]), compute if in_workers else None),
        batch_size=None,
        num_workers=workers,
        worker_init_fn=_alone,
    )
    keys: list[bytes] = []
    waiting: list[Tensor] = []
    told = f"features of {rows:,} views, in batches"
    with interruptible() as interruption:
        for some, result in cache.progress(loader, told, len(loader.dataset)):  # pyright: ignore[reportArgumentType]
            if some:
                keys += some
                waiting.append(result if in_workers else compute(result))
            if len(keys) >= _BLOCK_ROWS:
                cache.add(keys, torch.cat(waiting))
                keys, waiting = [], []
            if interruption.signal is not None:
                break
    if keys:
        cache.add(keys, torch.cat(waiting))
    if interruption.signal is not None:
        told = "stopped while the cache was filled; what was computed is kept, and the same command goes on"
        raise Interrupted(told, interruption.exit_code())
    return rows


@dataclass(frozen=True)
class _Task:
    """A image, the digest of its content, the views of it that are wanted, and their keys."""

    request: Request
    image: int
    digest: bytes
    numbers: list[int]
    keys: list[bytes]

    def pixels(self) -> list[Tensor]:
        """None if the image cannot be read, or is no longer the one that the keys are about."""
        images = self.request.images
        try:
            image = images.opener(self.image)
            if images.digest(self.image) != self.digest:
                return []
        except ValueError:
            return []
        return [self.request.views.see(image, self.digest, number) for number in self.numbers]


def _missing(cache: FeatureCache, request: Request) -> Iterator[_Task]:
    known: set[bytes] = set()
    for i, digest in enumerate(request.digests):
        keys = request.keys(i)
        numbers = [n for n, row in enumerate(cache.rows(keys)) if row < 0 and keys[n] not in known]  # it may come twice
        if digest is not None and numbers:
            known.update(keys)
            yield _Task(request, i, digest, numbers, [keys[number] for number in numbers])


def _groups(work: list[_Task]) -> list[list[_Task]]:
    """ImageDataset whose views go through the stem together."""
    groups: list[list[_Task]] = []
    room = 0
    for task in work:
        if room < len(task.keys):
            groups.append([])
            room = _TOGETHER
        groups[-1].append(task)
        room -= len(task.keys)
    return groups


@dataclass(frozen=True)
class _Compute:
    tokenizer: SpectralTokenizer
    preprocessing: Preprocessing

    def __call__(self, pixels: Tensor) -> Float[Tensor, "n l c"]:
        """A view's features are the same bits whichever views come with it: the stem only sees whole batches."""
        device = next(self.tokenizer.parameters()).device
        whole = self.tokenizer.rfn.whole_batch(*pixels.shape[-2:])
        parts = []
        with torch.inference_mode():
            for some in pixels.split(_TOGETHER):
                filled = torch.cat([some, some[-1:].expand(-len(some) % whole, -1, -1, -1)])
                images = normalize(filled.to(device), self.preprocessing.mean, self.preprocessing.std)
                parts.append(self.tokenizer.eval().features(images)[0][: len(some)].cpu())
        return torch.cat(parts)


class _Computed(Dataset):
    """Group → keys and features; pixels in place of these where they are computed elsewhere."""

    def __init__(self, groups: list[list[_Task]], compute: _Compute | None):
        self.groups, self.compute = groups, compute

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, i: int) -> tuple[list[bytes], Tensor]:
        keys: list[bytes] = []
        seen: list[Tensor] = []
        for task in self.groups[i]:
            pixels = task.pixels()
            seen += pixels
            keys += task.keys if pixels else []
        if not seen:
            return [], torch.empty(0)
        pixels = torch.stack(seen)
        return keys, self.compute(pixels) if self.compute else pixels


def _alone(worker: int) -> None:
    """Ctrl-C is for the first process to handle."""
    one_thread(worker)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _announce(cache: FeatureCache, requests: Sequence[Request], rows: int) -> None:
    keys = list({key for each in requests for key in each.all_keys()})
    there = len(keys) - cache.rows(keys).count(-1)
    waiting = sum(len(cache.features[name]["keys"]) for name in cache.unordered(keys))
    size = rows * cache.feature_bytes + (rows + waiting) * cache.order_bytes
    free = shutil.disk_usage(cache.folder).free
    cache.note(
        f"cache {cache.folder}: {len(keys):,} views, {there:,} of them there, {rows:,} to compute"
        + (f", visiting orders of {waiting:,} of those there to find" if waiting else "")
        + (f" ({_bytes(size)} more on disk, {_bytes(free)} free)" if size else "")
    )
    if size > free:
        raise OSError(
            f"the cache needs {_bytes(size)}, but only {_bytes(free)} are free in {cache.folder}; keep fewer views "
            f"(--views), or choose another place (--cache-folder)"
        )


def _bytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
