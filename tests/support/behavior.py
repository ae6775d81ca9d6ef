"""Fingerprint what the package computes, to compare two commits: `python -m tests.support.behavior OUTPUT.json`.

Uses only the public API and the command line, so that the same file runs on commits whose modules have other names.
Prints the differences and exits with code 1 when a second file is given:
`python -m tests.support.behavior NEW.json OLD.json`.
"""

import json
import os
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

import spectral_vmamba
from spectral_vmamba.data import photograph_crops
from spectral_vmamba.testing import activate_scan

SMALL_HIERARCHY = {"widths": (32, 64, 128, 256), "depths": (1, 1, 2, 1)}
SMALL_ISOTROPIC = {"width": 32, "depth": 4, "img_size": 64}
OPTIONS = (
    {},
    {"domain": "disk", "turns": 8, "share_directions": True},
    {"merge": "concat", "radius_embedding": True, "frame": "none", "neighbors": None},
    {"traversal": "random", "turns": 1, "local_mixing": None, "state_size": 2},
    {"traversal": "cross", "local_mixing": "depthwise"},
)


def digest(*tensors: torch.Tensor | np.ndarray) -> str:
    total = sha256()
    for tensor in tensors:
        array = tensor.detach().contiguous().numpy() if isinstance(tensor, torch.Tensor) else tensor
        total.update(f"{array.dtype} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def crops(count: int, size: int) -> torch.Tensor:
    return photograph_crops(count, size).float() / 127.5 - 1


def models() -> dict[str, str]:
    """Seeded logits of every registered model, published sizes made narrow."""
    found = {}
    for name in spectral_vmamba.list_models():
        isotropic = "vim_" in name
        cpu_scale = name.endswith(("_nano", "_lite", "_pico")) and name != "msvmamba_nano"
        options = {} if cpu_scale else SMALL_ISOTROPIC if isotropic else dict(SMALL_HIERARCHY)
        if not cpu_scale and name.startswith(("spectral", "vmamba_rfn")):
            options["stem_weights"] = None
        size = 128 if name.endswith("_lite") else 32 if cpu_scale else 64 if isotropic else 96
        torch.manual_seed(0)
        model = activate_scan(spectral_vmamba.create_model(name, num_classes=7, **options)).eval()
        with torch.no_grad():
            found[name] = digest(model(crops(4, size)))
    return found


def orders() -> dict[str, str]:
    """Logits and visiting orders of Spectral VMamba nano under its options, and of each solver; gradients of one."""
    found = {}
    images = crops(6, 64)
    for options in OPTIONS:
        torch.manual_seed(0)
        model = activate_scan(spectral_vmamba.create_model("spectral_vmamba_nano", num_classes=5, **options)).eval()
        with torch.no_grad():
            logits, traversals = model.forward_traversals(images)
        found[str(options)] = digest(logits, *(t.orders for t in traversals), *(t.ranks for t in traversals))
    for solver in ("auto", "dense", "arpack", "native", "subspace"):
        torch.manual_seed(0)
        model = spectral_vmamba.create_model("spectral_vmamba_nano", solver=solver).eval()
        with torch.no_grad():
            found[f"solver {solver}"] = digest(*(t.orders for t in model.forward_traversals(images)[1]))
    for backend in ("native", "portable", "reference"):
        torch.manual_seed(0)
        model = spectral_vmamba.create_model("spectral_vmamba_nano", num_classes=5, depths=(1, 1, 1), backend=backend)
        model(images[:2, :, :32, :32]).square().sum().backward()
        gradients = (part.grad for part in model.parameters() if part.grad is not None)
        found[f"gradients {backend}"] = digest(*gradients)
    return found


def command(*arguments: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "spectral_vmamba", *arguments], check=True, env=environment)


def weights(path: Path) -> str:
    """Of a checkpoint, whatever its tensors are called."""
    return sha256("".join(sorted(digest(tensor) for tensor in load_file(path).values())).encode()).hexdigest()[:16]


def numbers(value) -> list[float]:
    """All numbers of a JSON value, sorted: what was measured, whatever the fields are called."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return sorted(number for part in value for number in numbers(part))
    return [float(value)] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


def runs(folder: Path) -> dict[str, str]:
    """Training, evaluation, the feature cache and embeddings, through the command line."""
    pixels = photograph_crops(64, 96).permute(0, 2, 3, 1).numpy()
    labels = (pixels.mean((1, 2, 3)) > np.median(pixels.mean((1, 2, 3)))).astype(np.int64)
    pack = folder / "crops.npz"
    np.savez(pack, x_train=pixels[:48], y_train=labels[:48], x_test=pixels[48:], y_test=labels[48:])
    plain = ["--workers", "0", "--tracker", "none", "--device", "cpu"]
    command("train", "--recipe", "digits", "--epochs", "2", "--output", f"{folder}/digits", *plain)
    lite = ["--data", str(pack), "--image-size", "96", "--epochs", "2", "--min-steps", "0", "--batch-size", "16"]
    cache = ["--views", "2", "--cache-folder", f"{folder}/cache"]
    command("train", "--recipe", "lite", *lite, *cache, "--output", f"{folder}/lite", *plain)
    command("evaluate", f"{folder}/digits", "--weights", "ema", "--rotations", "45", "--output", f"{folder}/report")
    stem = ("--features", "stem", "--tokens", "--image-size", "96")
    command("embed", str(pack), "--output", f"{folder}/stem", "--format", "npy", *stem)
    command("embed", str(pack), "--output", f"{folder}/net", "--format", "npy", "--checkpoint", f"{folder}/lite")
    rows = []
    for block in folder.glob("cache/*/features/*.safetensors"):
        rows += [digest(row) for row in load_file(block)["features"]]
    report = json.loads((folder / "report" / "evaluation.json").read_text())
    return {
        "digits weights": weights(folder / "digits" / "last.safetensors"),
        "lite weights": weights(folder / "lite" / "last.safetensors"),
        "lite cache": sha256("".join(sorted(rows)).encode()).hexdigest()[:16],
        "evaluation": sha256(json.dumps(numbers(report)).encode()).hexdigest()[:16],
        "embed stem": digest(np.load(folder / "stem" / "vectors.npy"), np.load(folder / "stem" / "tokens.npy")),
        "embed network": digest(np.load(folder / "net" / "vectors.npy")),
    }


def main(output: str, earlier: str | None = None) -> int:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = {"models": models(), "orders": orders(), "runs": runs(Path(folder))}
    Path(output).write_text(json.dumps(found, indent=1) + "\n")
    if earlier is None:
        return 0
    before = json.loads(Path(earlier).read_text())
    differences = [
        f"{group}: {name}: {before[group].get(name)} → {found[group].get(name)}"
        for group in before
        for name in before[group] | found[group]
        if before[group].get(name) != found[group].get(name)
    ]
    count = sum(map(len, found.values()))
    print("\n".join(differences) or f"all {count} fingerprints are equal")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
