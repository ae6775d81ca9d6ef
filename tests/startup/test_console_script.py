"""The console script."""

import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points

CODE = "import sys; from spectral_vmamba_startup.console import main; print('started', flush=True); sys.exit(main())"


def test_ctrl_c_while_the_package_is_imported_is_one_line():
    process = subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    time.sleep(0.3)  # the import takes seconds
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, "interrupted\n")


def test_the_console_script_is_the_one_that_catches_it():
    (script,) = entry_points(group="console_scripts", name="spectral-vmamba")
    assert script.value == "spectral_vmamba_startup.console:main"
