"""`spectral-vmamba info`."""

import spectral_vmamba
from spectral_vmamba.cli import main


def test_info_prints_what_the_python_function_returns(capsys):
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{spectral_vmamba.info()}\n")
    assert "`spectral-vmamba models` lists the models." in out
