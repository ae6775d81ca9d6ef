"""Wrong command lines are explained in the words of the command line."""

import pytest

from spectral_vmamba.cli import main

WRONG = {
    "train --epoch 3": "unknown option --epoch; did you mean --epochs?",
    "train --lr 0.1": "unknown option --lr; did you mean --optimizer.lr?",
    "train --hflip=0": "unknown option --hflip; did you mean --augment.hflip?",
    "train --qqqqq": "unknown option --qqqqq",
    "train --epochs x": "--epochs: expected a whole number, got 'x'",
    "train --workers many": "--workers: expected a whole number, got 'many'",
    "train --augment.hflip often": "--augment.hflip: expected a number, got 'often'",
    "train --augment.crop-scale 3": "--augment.crop-scale: expected a list of 2 values, as in '[0.5, 1]', got '3'",
    "train --model-options x": "--model-options: expected names and values, as in '{domain: disk}', got 'x'",
    "train --cache maybe": "--cache: expected true or false, got 'maybe'",
    "train --epochs": "--epochs: expected a value",
    "train --recipe light": "no recipe 'light': neither a file nor one of digits, laptop, lite, paper; did you mean "
    "lite?",
    "train --device tpu": "--device: expected auto, cpu, cuda or mps, got 'tpu'",
    "predict run a.png --device tpu": "--device: expected auto, cpu, cuda or mps, got 'tpu'",
    "predict run a.png --topk 3": "unknown option --topk; did you mean --top?",
    "predict run a.png --weights all": "--weights: expected best, ema or raw, got 'all'",
    "embed a b -o c": "unexpected argument: b",
    "trian --epochs 3": "unknown command 'trian'; did you mean train?",
    "certify": "certify requires CHECKPOINT, as in: spectral-vmamba certify runs/photos",
    "search folder": "search requires IMAGES, as in: spectral-vmamba search photos.vectors new.jpg --sheet found.png",
    "embed a": "embed requires --output, as in: spectral-vmamba embed photos/ --output photos.vectors",
    "train --recipe segment_lite": "segment_lite is a recipe of `spectral-vmamba segment train`; there are digits, "
    "laptop, lite, paper",
    "": "expected a command: train, evaluate, certify, predict, embed, search, segment, split, models, reproduce, "
    "traversal, info or demo",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_command_line_is_explained_in_one_line(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    assert stop.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"error: {WRONG[words]}"


def test_an_unknown_command_without_a_similar_one_lists_all(capsys):
    with pytest.raises(SystemExit):
        main(["xyz"])
    assert "unknown command 'xyz'; the commands are train, evaluate, " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["search", "certify", "predict"])
def test_the_usage_is_that_of_the_command(command, capsys):
    with pytest.raises(SystemExit):
        main([command])
    assert capsys.readouterr().err.startswith(f"usage: spectral-vmamba {command} [")


def test_unknown_and_wrong_settings_of_a_recipe_are_explained(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    for text, message in (
        ("epoks: 3\n", "unknown setting 'epoks' in the recipe; did you mean epochs?"),
        ("optimizer:\n  lr: fast\n", "--optimizer.lr: expected a number, got 'fast'"),
    ):
        path.write_text(text)
        with pytest.raises(SystemExit):
            main(["train", "--recipe", str(path)])
        assert capsys.readouterr().err.splitlines()[-1] == f"error: {message}"
