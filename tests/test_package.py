"""The package as a whole: its public names, what importing it does, and the rules that its files follow."""

import doctest
import inspect
import rlcompleter
import subprocess
import sys
from collections import Counter
from importlib.metadata import requires, version
from pathlib import Path

import pytest

import spectral_vmamba

ROOT = Path(spectral_vmamba.__file__).parent
REPOSITORY = ROOT.parents[1]
FUNCTIONS = [
    *("create_model", "invariant", "list_models", "selective_scan", "spectral_traversal", "info", "rotation_gap"),
    *(
        "recipe",
        "fit",
        "load",
        "load_timm",
        "evaluate",
        "certify",
        "embed",
        "search",
        "save_for_hub",
        "from_pretrained",
    ),
    *("create_segmenter", "segment_recipe", "fit_segmenter", "evaluate_segmenter"),
]
CONFIGS = ["SpectralConfig", "TrainConfig", "SegmentConfig", "OptimizerConfig", "Augmentation", "EmbedConfig"]
TYPES = ["SpectralVMamba", "Traversal"]


def run_python(code: str, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True)


def test_public_names_are_pinned():
    assert sorted(spectral_vmamba.__all__) == sorted([*FUNCTIONS, *CONFIGS, *TYPES, "__version__"])
    assert set(spectral_vmamba.__all__) <= set(dir(spectral_vmamba))


@pytest.mark.parametrize("name", [*FUNCTIONS, *CONFIGS, *TYPES])
def test_tab_completion_finds_every_name(name):
    """Also those that are imported on first use; completers ask `dir` and call `getattr`."""
    completer = rlcompleter.Completer({"spectral_vmamba": spectral_vmamba})
    matches = completer.attr_matches(f"spectral_vmamba.{name[:-1]}")
    assert f"spectral_vmamba.{name}" in [match.rstrip("()") for match in matches]


@pytest.fixture(scope="module")
def examples_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("examples")


@pytest.mark.full
# In this order: `fit` and `fit_segmenter` train the runs that the examples of `load`, `evaluate` and others use.
@pytest.mark.parametrize(
    "name", sorted([*FUNCTIONS, *CONFIGS], key=lambda name: (not name.startswith("fit"), name == "search", name))
)
def test_docstring_example_runs(name, examples_folder, monkeypatch):
    monkeypatch.chdir(examples_folder)
    documented = getattr(spectral_vmamba, name)
    found = doctest.DocTestFinder(recurse=False).find(documented, name, globs={name: documented})
    examples = [example for test in found for example in test.examples]
    assert examples, f"{name} has no example"
    assert not any(example.options.get(doctest.SKIP) for example in examples)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in found:
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_version_is_stated_once():
    assert version("spectral-vmamba") == spectral_vmamba.__version__
    assert (ROOT / "_version.py").read_text().count(spectral_vmamba.__version__) == 1


def test_base_install_is_the_backbone_only():
    base = {
        requirement.split(">")[0] for requirement in requires("spectral-vmamba") or [] if "extra" not in requirement
    }
    assert base == {"torch", "timm", "numpy", "scipy", "safetensors", "jaxtyping", "pillow"}


# Not yaml: timm depends on it, through huggingface_hub.
OPTIONAL = [
    *("matplotlib", "rich", "jsonargparse", "docstring_parser", "accelerate", "torchmetrics", "tensorboard"),
    *("sklearn", "skimage", "pyarrow", "ray"),
]
WITHOUT_EXTRAS = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL}))\n"


def test_backbone_works_without_any_extra():
    code = """
import torch, spectral_vmamba
model = spectral_vmamba.create_model("spectral_vmamba_nano", num_classes=3).eval()
images = torch.rand(2, 3, 32, 32)
assert all(gap.bitwise_equal for gap in spectral_vmamba.rotation_gap(model, images))
print(spectral_vmamba.info())
"""
    done = run_python(WITHOUT_EXTRAS + code)
    assert done.returncode == 0, done.stderr
    assert "matplotlib" in done.stdout


MISSING = {
    "spectral_vmamba.fit(spectral_vmamba.TrainConfig(data='digits'))": "train",
    "spectral_vmamba.embed(spectral_vmamba.EmbedConfig('x', 'y'))": "embed",
    "__import__('spectral_vmamba.plots.rotation_plots')": "plots",
    "spectral_vmamba.data.photographs()": "demo",
}


def test_missing_extra_names_itself(tmp_path):
    code = f"""
import os
import spectral_vmamba.data
from spectral_vmamba.cli import main
os.chdir({str(tmp_path)!r})
for expression in {list(MISSING)}:
    try:
        eval(expression)
    except ImportError as error:
        print(error)
raise SystemExit(main(["info"]))
"""
    done = run_python(WITHOUT_EXTRAS + code)
    lines = done.stdout.splitlines()
    assert len(lines) == len(MISSING), done.stderr
    for line, extra in zip(lines, MISSING.values(), strict=True):
        assert f"pip install 'spectral-vmamba[{extra}]'" in line
    assert done.returncode == 1
    assert "pip install 'spectral-vmamba[cli]'" in done.stderr


def test_importing_prints_nothing_and_changes_nothing():
    state = "(torch.get_default_dtype(), torch.get_num_threads(), torch.random.get_rng_state().sum())"
    done = run_python(
        f"import torch; before = {state}; import spectral_vmamba; assert before == {state}",
        "-W",
        "error::UserWarning",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


@pytest.mark.full
def test_training_and_info_do_not_load_matplotlib():
    loaded = "print('matplotlib' in sys.modules)"
    code = f"import sys, spectral_vmamba; spectral_vmamba.info(); spectral_vmamba.fit; {loaded}"
    done = run_python(f"{code}; import spectral_vmamba.plots.rotation_plots; {loaded}")
    assert done.stdout.split() == ["False", "True"], done.stderr


def test_first_example_of_the_readme_runs():
    example = (REPOSITORY / "README.md").read_text().split("```python")[1].split("```")[0]
    done = run_python(example)
    assert done.returncode == 0, done.stderr


def test_imports_between_rooms_go_down_only():
    """The contracts in pyproject.toml."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def sources() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def test_no_relative_imports():
    relative = [path for path in sources() if "\nfrom ." in path.read_text()]
    assert not relative


def test_files_have_at_most_300_lines():
    long = {str(path.relative_to(ROOT)): n for path in sources() if (n := len(path.read_text().splitlines())) > 300}
    assert not long


def test_file_names_are_unique():
    """Except those of the command line, which are named after the subcommands."""
    names = Counter(path.name for path in sources() if path.name != "__init__.py" and path.parent.name != "cli")
    assert not [name for name, count in names.items() if count > 1]


def test_every_module_has_a_docstring():
    undocumented = [path for path in sources() if not inspect.cleandoc(path.read_text() or " ").startswith('"""')]
    assert {path.name for path in undocumented} <= {"__main__.py", "_version.py"}
