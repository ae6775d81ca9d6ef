"""Train a classifier on your images."""

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import print_line
from spectral_vmamba.cli.options import CommandParser, RecipeFile, add_settings, parse_settings
from spectral_vmamba.training.recipes import list_recipes
from spectral_vmamba.training.train_config import TrainConfig

_DESCRIPTION = f"""{__doc__}

The simplest data is a folder with one folder of images per class; --data lists the other formats. Writes
best.safetensors and last.safetensors to the output folder, with the settings, the classes and the learning curves.

--recipe reads settings from a YAML file or by name ({", ".join(list_recipes())}); options after it override it.
The defaults without a recipe are those of the paper (300 epochs). Press Ctrl-C to stop and pass --resume to continue,
also after a crash: the result is the same as without the interruption.

Examples:
  spectral-vmamba train --recipe lite --data photos/ --output runs/photos
  spectral-vmamba train --recipe laptop --data photos.csv --output runs/photos --epochs 50 --resume

To use several GPUs or machines, start the command with `accelerate launch -m spectral_vmamba train …` or torchrun."""


def parser() -> CommandParser:
    usage = "spectral-vmamba train [--recipe NAME] [--data PATH] [--output FOLDER] [options]"
    parser = CommandParser(description=_DESCRIPTION, usage=usage)
    parser.add_argument("--recipe", action=RecipeFile, help="read settings from a YAML file, or from a recipe by name")
    parser.add_argument("--resume", action="store_true", help="continue the run in the output folder, if there is one")
    add_settings(parser, TrainConfig)
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.training import TerminalReporter, fit

    console = Console()
    result = fit(parse_settings(TrainConfig, config), resume=config.resume, reporter=TerminalReporter(console))
    best = result.best
    weights = {"ema": "averaged weights", "raw": "weights"}[best["weights"]]
    test = f"{result.test_images:,} test images were held out; evaluate uses them"
    print_line(
        console,
        f"best validation accuracy: {best['score']:.2%}, {weights} of epoch {best['epoch']}. The same validation images"
        f" selected this epoch; {test if result.test_images else 'use --test-fraction for an untouched test set'}.\n"
        f"wrote {result.folder / 'best.safetensors'}; evaluate it with\n"
        f"  spectral-vmamba evaluate {result.folder} --rotations 15",
    )
    return 0
