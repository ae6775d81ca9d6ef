"""Compute the missing rows of a feature store. Each image file is read once; workers decode and run the stem."""

import os
import shutil
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from spectral_vmamba.data.dataset import ImageDataset, digest_content
from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.loader import SinglePassSampler, stack_pixels, use_one_thread
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.features.cached_views import ViewSet
from spectral_vmamba.features.feature_store import FeatureStore
from spectral_vmamba.features.stem_inputs import distinct_stem_inputs
from spectral_vmamba.models import SpectralTokenizer
from spectral_vmamba.models.framing import Posed
from spectral_vmamba.utils.interruption import Interrupted, interruptible
from spectral_vmamba.utils.progress import Estimate
from spectral_vmamba.utils.wording import plural

_VIEWS_PER_PASS = 32  # views that go through the stem together
_ROWS_PER_BLOCK = 512
_FILES_AHEAD = 64  # files that are read ahead of time and held in memory


@dataclass(eq=False)
class ViewRequest:
    """Views of a dataset that a store should hold.

    `digests` identify the images by content, None for unreadable ones. `fill` sets them: it reads the files anyway.
    """

    dataset: ImageDataset
    views: ViewSet
    digests: list[bytes | None] = field(default_factory=list)

    def keys(self, i: int) -> list[bytes]:
        digest = self.digests[i]
        return [] if digest is None else self.views.keys(digest)

    def all_keys(self) -> Iterator[bytes]:
        return (key for i in range(len(self.digests)) for key in self.keys(i))


def fill(store: FeatureStore, requests: Sequence[ViewRequest], workers: int, rank: int = 0, world_size: int = 1) -> int:
    """Compute and store the missing rows; return how many were computed.

    Each process takes a share of the images by their content, so that processes need not agree on what is missing.
    Ctrl-C keeps what was computed. Unreadable images get no rows.
    """
    _announce(store, requests)
    plan, estimate = _Plan(), Estimate(store.note)
    device = next(store.tokenizer.parameters()).device
    compute = FeatureComputer(store.tokenizer, store.preprocessing)
    in_workers = device.type == "cpu" and workers > 0
    loader = DataLoader(
        _ComputedGroups(requests, compute if in_workers else None),
        batch_size=None,
        sampler=SinglePassSampler(_make_groups(store, requests, plan, rank, world_size)),  # pyright: ignore[reportArgumentType]
        num_workers=workers,
        worker_init_fn=_start_worker,
    )
    computed = 0
    keys: list[bytes] = []
    features: list[Tensor] = []
    with interruptible() as interruption:
        for group_keys, result in loader:
            if group_keys:
                keys += group_keys
                features.append(result if in_workers else compute(result))
                computed += len(group_keys)
                missing = plan.expected_missing(_count_requested(requests))
                estimate.update(computed, missing, f"features of about {plural(missing, 'view')}")
            if len(keys) >= _ROWS_PER_BLOCK:
                store.add(keys, torch.cat(features))
                keys, features = [], []
            if interruption.requested:
                break
    if keys:
        store.add(keys, torch.cat(features))
    if interruption.requested:
        message = "stopped while filling the feature cache; computed features are kept: run the command again to resume"
        raise Interrupted(message, interruption.exit_code())
    return computed


@dataclass(frozen=True)
class _Task:
    """The missing views of one image, with the bytes of its file."""

    request: int
    image: int
    content: bytes
    digest: bytes
    view_numbers: list[int]
    keys: list[bytes]


@dataclass
class _Plan:
    """Views of the images that have been looked up so far, and how many of them are missing."""

    requested: int = 0
    missing: int = 0

    def expected_missing(self, requested: int) -> int:
        """How many of all requested views are missing, if the images so far are typical."""
        return round(self.missing * requested / max(self.requested, 1))


def _make_groups(
    store: FeatureStore, requests: Sequence[ViewRequest], plan: _Plan, rank: int, world_size: int
) -> Iterator[list[_Task]]:
    """Read every image, set the digests of the requests, and yield groups of tasks whose views fill one stem pass."""
    planned: set[bytes] = set()  # an image can occur twice
    group: list[_Task] = []
    capacity = _VIEWS_PER_PASS
    for number, request in enumerate(requests):
        request.digests[:] = []
        contents = store.progress(_read_contents(request.dataset), "features of images", len(request.dataset))
        for i, (content, digest) in enumerate(contents):
            request.digests.append(digest)
            plan.requested += len(request.views.names)
            if content is None or digest is None or digest[0] % world_size != rank:
                continue
            keys = request.keys(i)
            missing = [n for n, row in enumerate(store.rows(keys)) if row < 0 and keys[n] not in planned]
            if not missing:
                continue
            planned.update(keys)
            plan.missing += len(missing)
            if group and capacity < len(missing):
                yield group
                group, capacity = [], _VIEWS_PER_PASS
            group.append(_Task(number, i, content, digest, missing, [keys[n] for n in missing]))
            capacity -= len(missing)
    if group:
        yield group


def _read_contents(dataset: ImageDataset) -> Iterator[tuple[bytes | None, bytes | None]]:
    """The bytes and the digest of every image, in order, read by threads a bounded number of files ahead."""

    def read(i: int) -> tuple[bytes | None, bytes | None]:
        try:
            content = dataset.storage.content(i)
        except (ValueError, OSError):
            return None, None
        return content, digest_content(content)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ahead: deque[Future] = deque()
        for i in range(len(dataset)):
            ahead.append(pool.submit(read, i))
            if len(ahead) == _FILES_AHEAD:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


@dataclass(frozen=True)
class FeatureComputer:
    tokenizer: SpectralTokenizer
    preprocessing: Preprocessing

    def __call__(self, pixels: Tensor) -> Float[Tensor, "n l c"]:
        """Features of views, bitwise independent of the other views: batches are padded to a fixed multiple.

        Views that the stem sees as the same bits pass it once: with a frame, the quarter turns of an image.
        """
        device = next(self.tokenizer.parameters()).device
        multiple = self.tokenizer.rfn.batch_multiple(*pixels.shape[-2:])
        parts = []
        with torch.inference_mode():
            images = normalize(pixels.to(device), self.preprocessing.mean, self.preprocessing.std)
            posed = self.tokenizer.stem_input(images)  # once: a learned frame takes several passes of the stem
            first, same = distinct_stem_inputs(self.tokenizer, posed)
            for part in posed.images[first].split(_VIEWS_PER_PASS):
                padded = torch.cat([part, part[-1:].expand(-len(part) % multiple, -1, -1, -1)])
                parts.append(self.tokenizer.eval().features(Posed(padded, None))[0][: len(part)].cpu())
        return torch.cat(parts)[same]


class _ComputedGroups(Dataset):
    """Group of tasks → keys and features; without `compute`, keys and pixels."""

    def __init__(self, requests: Sequence[ViewRequest], compute: Callable[[Tensor], Tensor] | None):
        self.datasets = [request.dataset for request in requests]
        self.views = [request.views for request in requests]
        self.compute = compute

    def __getitem__(self, group: list[_Task]) -> tuple[list[bytes], Tensor]:
        keys: list[bytes] = []
        pixels: list[Tensor] = []
        for task in group:
            try:
                image = self.datasets[task.request].storage.decode(task.image, task.content)
            except ValueError:
                continue
            keys += task.keys
            pixels += self.views[task.request].render(image, task.digest, task.view_numbers)
        stacked = stack_pixels(pixels)
        return keys, self.compute(stacked) if self.compute and keys else stacked


def _start_worker(worker: int) -> None:
    """Ctrl-C is for the main process to handle."""
    use_one_thread(worker)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _announce(store: FeatureStore, requests: Sequence[ViewRequest]) -> None:
    """Report the size of the work, and stop before it starts if the disk is too small."""
    views = _count_requested(requests)
    free = shutil.disk_usage(store.folder).free
    row_bytes = store.feature_bytes + store.order_bytes
    store.note(
        f"feature cache {store.folder}: {plural(views, 'view')} requested, {len(store.row_by_key):,} stored; "
        f"{_format_bytes(row_bytes)} per view, {_format_bytes(free)} free"
    )
    if views * row_bytes <= free:
        return
    needed = _count_missing(store, requests) * row_bytes  # reads the files once more, only where the disk is small
    if needed > free:
        raise OSError(
            f"the feature cache needs {_format_bytes(needed)}, but only {_format_bytes(free)} are free in "
            f"{store.folder}; reduce --views or choose another --cache-folder"
        )


def _count_requested(requests: Sequence[ViewRequest]) -> int:
    return sum(len(request.dataset) * len(request.views.names) for request in requests)


def _count_missing(store: FeatureStore, requests: Sequence[ViewRequest]) -> int:
    keys = {
        key
        for request in requests
        for _, digest in _read_contents(request.dataset)
        if digest is not None
        for key in request.views.keys(digest)
    }
    return store.rows(list(keys)).count(-1)


def _format_bytes(count: int) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if count >= unit / 10:
            return f"{count / unit:.2f} {name}"
    return f"{count / 1e3:.2f} kB"
