"""Missing optional packages name the extra that installs them."""

import sys

import pytest

from spectral_vmamba.utils.extras import require


def test_installed_modules_are_returned():
    import email.message

    assert require("email.message", "train") is email.message


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.part"])
def test_a_missing_package_names_the_extra_and_the_command(module):
    message = r"^this needs no_such_package: pip install 'spectral-vmamba\[embed\]'$"
    with pytest.raises(ImportError, match=message) as error:
        require(module, "embed")
    assert error.value.name == "no_such_package"


def test_a_package_that_misses_another_names_that_one(tmp_path, monkeypatch):
    (tmp_path / "needs_another.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="this needs no_such_package"):
        require("needs_another", "ray")
    assert "needs_another" not in sys.modules
