"""Segment images: train, evaluate and use networks that find a class for every pixel."""

from jsonargparse import Namespace

from spectral_vmamba.cli import segment_evaluate, segment_predict, segment_train
from spectral_vmamba.cli.options import CommandParser

COMMANDS = {"train": segment_train, "evaluate": segment_evaluate, "predict": segment_predict}
_DESCRIPTION = f"""{__doc__}

Masks turn with the image: by quarter turns to the last bit, and with the frame moment by every angle.

Examples:
  spectral-vmamba segment train --recipe segment_lite --data tiles/ --output runs/tiles
  spectral-vmamba segment evaluate runs/tiles --rotations 15
  spectral-vmamba segment predict runs/tiles new/ --output masks/

`spectral-vmamba segment COMMAND --help` explains a command."""


def parser() -> CommandParser:
    return CommandParser(description=_DESCRIPTION)


def run(config: Namespace) -> int:
    return COMMANDS[config.subcommand].run(config[config.subcommand])
