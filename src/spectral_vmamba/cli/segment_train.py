"""Train a segmentation network on images with masks."""

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import print_line
from spectral_vmamba.cli.options import CommandParser, SegmentationRecipeFile, add_settings, parse_settings
from spectral_vmamba.segmentation.segment_config import SegmentConfig, without_options_of_another_decoder
from spectral_vmamba.training.recipes import list_recipes

_DESCRIPTION = f"""{__doc__}

The simplest data is a folder with images/ and masks/: a mask has the name and size of its image, and is a PNG of class
ids (255: no class). List the names of the classes in classes.txt, one per line, each with its color in masks of colors.
--data lists the other formats. Writes best.safetensors and last.safetensors to the output folder, with the settings,
the classes and the learning curves.

--recipe reads settings from a YAML file, or by name from one of
{", ".join(list_recipes("segmentation"))};
options after it override it. The defaults without a recipe are those of the paper's supplement, except for its 160,000
steps (--steps 160000). Press Ctrl-C to stop and pass --resume to continue, also after a crash: the result is the same
as without the interruption.

Examples:
  spectral-vmamba segment train --recipe segment_lite --data tiles/ --output runs/tiles
  spectral-vmamba segment train --recipe segment_nano --data tiles.csv --output runs/tiles --epochs 50 --resume

To use several GPUs or machines, start the command with `accelerate launch -m spectral_vmamba segment train …` or
torchrun."""


def parser() -> CommandParser:
    usage = "spectral-vmamba segment train [--recipe NAME] [--data PATH] [--output FOLDER] [options]"
    parser = CommandParser(description=_DESCRIPTION, usage=usage)
    parser.add_argument(
        "--recipe", action=SegmentationRecipeFile, help="read settings from a YAML file, or from a recipe by name"
    )
    parser.add_argument("--resume", action="store_true", help="continue the run in the output folder, if there is one")
    add_settings(parser, SegmentConfig)
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.segmentation import fit_segmenter
    from spectral_vmamba.training import TerminalReporter

    console = Console()
    settings = parse_settings(SegmentConfig, config)
    for recipe in config.recipe or ():
        settings = without_options_of_another_decoder(settings, str(recipe))
    result = fit_segmenter(settings, resume=config.resume, reporter=TerminalReporter(console))
    best = result.best
    weights = {"ema": "averaged weights", "raw": "weights"}[best["weights"]]
    print_line(
        console,
        f"best validation mean IoU: {best['score']:.2%}, {weights} of epoch {best['epoch']}\n"
        f"wrote {result.folder / 'best.safetensors'}; use it with\n"
        f"  spectral-vmamba segment evaluate {result.folder} --rotations 15\n"
        f"  spectral-vmamba segment predict {result.folder} IMAGES --output masks",
    )
    return 0
