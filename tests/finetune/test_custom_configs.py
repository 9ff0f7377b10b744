"""Example files in the headers of configs/finetune/own_*.cfg are read."""

import pathlib
import re

import pytest
import tiny_finetuning as tiny

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune import task_builder
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.util.flags import leaves, parse_flags

CONFIGS = pathlib.Path(__file__).parents[2] / "configs" / "finetune"
FILES = sorted(CONFIGS.glob("own_*.cfg"))
# "... train.csv:" or "... train.conll, a word a line, ...:", and the lines
# below it that are indented more.
_EXAMPLE = re.compile(r"\b(train\.\w+)[^:\n]*:\n((?:# {13}\S.*\n)+)")


EXAMPLES = [
    pytest.param(path, *example, id=f"{path.stem}-{example[0]}")
    for path in FILES
    for example in _EXAMPLE.findall(path.read_text("utf-8"))
]


@pytest.mark.parametrize(("path", "name", "block"), EXAMPLES)
def test_the_example_file_in_a_config_header_is_read(
    path, name, block, tmp_path
):
    config = parse_flags(
        FinetuningConfig, [f"--flagfile={path}", f"--data_dir={tmp_path}"]
    )
    kind = config.columns.task_kind
    assert kind in task_builder.KINDS
    directory = tmp_path / "finetuning_data" / config.task.task_names[0]
    directory.mkdir(parents=True)
    lines = [line.removeprefix("#" + " " * 13) for line in block.splitlines()]
    (directory / name).write_text("\n".join(lines) + "\n", "utf-8")
    task = task_builder.get_task(
        config, TextTokenizer(tiny.VOCABULARY), longest=512
    )
    assert task.get_examples("train")


def test_every_kind_has_a_configuration_and_an_example():
    kinds = {
        parse_flags(FinetuningConfig, [f"--flagfile={path}"]).columns.task_kind
        for path in FILES
    }
    assert kinds == {*task_builder.KINDS}
    shown = {path for path, _, _ in (p.values for p in EXAMPLES)}
    assert shown == {*FILES}


def test_every_flag_named_in_a_config_exists():
    known = {leaf.field.name for leaf in leaves(FinetuningConfig)}
    known.add("flagfile")
    for path in FILES:
        for name in re.findall(r"--(\w+)", path.read_text("utf-8")):
            assert {name, name.removeprefix("no")} & known, name
