"""Train a classifier on a folder of images (or a table, a pack, a named data set)."""

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console

from spectral_vmamba.cli.options import RecipeFile, add_fields, settings_from
from spectral_vmamba.training.recipes import recipes
from spectral_vmamba.training.train_config import TrainConfig

_DESCRIPTION = f"""{__doc__}

Writes best.safetensors and last.safetensors to the output folder, with settings, classes and curves. The defaults are
the paper's recipe (300 epochs); `--recipe` takes a YAML file of settings, or one that comes with the package:
{", ".join(recipes())}. Options after it override it. Stop with Ctrl-C and go on with --resume, also after a crash: the
result is the same as without the interruption.

Several GPUs or machines: accelerate launch -m spectral_vmamba train …, or torchrun.
Example: spectral-vmamba train --recipe laptop --data photos/ --output runs/photos"""


def parser() -> ArgumentParser:
    usage = "spectral-vmamba train [--recipe NAME] [--data PATH] [--output FOLDER] [options]"
    parser = ArgumentParser(description=_DESCRIPTION, usage=usage)
    parser.add_argument("--recipe", action=RecipeFile, help="settings from a YAML file, or by name")
    parser.add_argument("--resume", action="store_true", help="go on in the output folder if a run was begun there")
    add_fields(parser, TrainConfig)
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.training import Bars, fit

    console = Console()
    result = fit(settings_from(TrainConfig, config), resume=config.resume, reporter=Bars(console))
    best = result.best
    kind = {"ema": "averaged weights", "raw": "weights"}[best["weights"]]
    console.print(
        f"best: {best['top1']:.2%} on the validation images, {kind} of epoch {best['epoch']}\n"
        f"wrote {result.folder / 'best.safetensors'}; measure it with\n"
        f"  spectral-vmamba evaluate {result.folder} --rotations 15",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    return 0
