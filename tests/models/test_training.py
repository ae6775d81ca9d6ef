"""Every family learns 512 images in a fixed small number of steps."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

import spectral_vmamba
from spectral_vmamba.models import is_cpu_scale

CIFAR = Path(__file__).parents[3] / "shared" / "datasets" / "cifar10_train.npz"
STEPS, BATCH, IMAGES = 250, 64, 512


@pytest.fixture(scope="module")
def images():
    if not CIFAR.exists():
        pytest.skip(f"needs {CIFAR.name} in a folder shared/datasets beside the repository")
    pack = np.load(CIFAR)
    sheet = np.asarray(Image.open(io.BytesIO(pack["sheet0"].tobytes())).convert("RGB"))
    pixels = sheet.reshape(100, 32, 100, 32, 3).swapaxes(1, 2).reshape(-1, 32, 32, 3)[:IMAGES]
    images = torch.from_numpy(pixels.copy()).permute(0, 3, 1, 2).float() / 127.5 - 1
    return images, torch.from_numpy(pack["label"][:IMAGES].astype(np.int64))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in spectral_vmamba.list_models() if is_cpu_scale(name) and "lite" not in name]
)
def test_loss_halves(name, images):
    images, labels = images
    torch.manual_seed(0)
    model = spectral_vmamba.create_model(name, num_classes=10).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 10))
    with torch.no_grad():
        start = float(F.cross_entropy(model(images[:BATCH]), labels[:BATCH]))
    losses = []
    for _ in range(STEPS):
        chosen = torch.randint(IMAGES, (BATCH,))
        loss = F.cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        losses.append(float(loss))
    assert np.mean(losses[-5:]) < start / 2, f"from {start:.2f} to {np.mean(losses[-5:]):.2f}"
