"""The table of ablations: what is run, what is skipped, what is printed."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

from electra_tf.config.objective_traits import TRAITS
from electra_tf.pretrain import flops
from electra_tf.util import config_flags
from electra_tf.util.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]
TOOL = ROOT / "tools/replication/ablations.py"
TINY = [
    f"--flagfile={ROOT}/configs/demo.cfg",
    "--vocab_size=300",
    "--max_seq_length=32",
    "--held_out_fraction=0.1",
    "--hidden_size=16",
    "--num_attention_heads=2",
    "--embedding_size=16",
    "--generator_hidden_size=0.5",
    "--train_batch_size=8",
    "--eval_batch_size=8",
    "--num_train_steps=6",
    "--num_warmup_steps=2",
    "--num_samples=1",
    "--do_export=false",
]


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("ablations", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def trained(tool, monkeypatch, tmp_path):
    """Replaces training: writes what a run leaves. Returns what was trained."""
    (tmp_path / "vocab.txt").write_text("".join(f"w{i}\n" for i in range(300)))
    names = []

    def train(flags):
        config = config_flags.parse(tool.FlopsConfig, flags)
        model_dir = pathlib.Path(config.run.model_dir)
        names.append(config.run.model_name)
        (model_dir / "results").mkdir(parents=True)
        config_flags.save_config(model_dir / "config.json", config)
        metrics = {"global_step": 6, "loss": 1.0, "masked_lm_loss": 2.0}
        if config.objective.objective == "electra":
            metrics["disc_auc"] = 0.75
        path = model_dir / "results" / "pretraining_eval.json"
        path.write_text(json.dumps(metrics))
        return 0

    monkeypatch.setattr(tool, "_train", train)
    return names


def test_rows_are_the_files_of_table_5(tool):
    files = {path.stem for path in (ROOT / "configs/ablations").glob("*.cfg")}
    assert set(tool.ROWS) < files
    for name in tool.ROWS:
        config = tool.make_row(name, TINY).config
        assert config.objective.objective in TRAITS


def test_every_row_is_run_once(tool, trained, tmp_path, capsys):
    flags = [*TINY, f"--data_dir={tmp_path}"]
    assert tool.main(flags) == 0
    assert trained == [f"ablation_{name}" for name in tool.ROWS]
    first = capsys.readouterr().out
    assert tool.main(flags) == 0
    assert len(trained) == len(tool.ROWS)
    assert capsys.readouterr().out.count("finished before") == len(tool.ROWS)
    line = next(x for x in first.splitlines() if x.startswith("electra "))
    assert line.split()[:3] == ["electra", "85.0", "6"]
    assert line.split()[4:] == ["2.0000", "-", "0.7500", "-", "-"]
    assert max(map(len, first.splitlines()[-12:])) <= 80


def test_flops_are_those_of_the_whole_run(tool, trained, tmp_path):
    row = tool.make_row("bert", [*TINY, f"--data_dir={tmp_path}"])
    encoder = flops.Pass(
        network=row.config.model.discriminator(300),
        num_tokens=32,
        num_predictions=4,
    )
    assert row.flops() == 6 * 8 * encoder.update()


def test_rows_can_be_chosen(tool, trained, tmp_path):
    flags = [*TINY, f"--data_dir={tmp_path}", "--rows=bert,electra"]
    assert tool.main(flags) == 0
    assert trained == ["ablation_bert", "ablation_electra"]
    with pytest.raises(UserError, match="Received: gpt"):
        tool.main(["--rows=bert,gpt"])


def test_another_experiment_is_not_taken_for_a_finished_row(
    tool, trained, tmp_path
):
    flags = [*TINY, f"--data_dir={tmp_path}", "--rows=bert"]
    tool.main(flags)
    with pytest.raises(UserError, match="seed: 0 there, 1 now"):
        tool.main([*flags, "--seed=1"])


def test_after_a_failure_nothing_more_is_begun(
    tool, trained, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(tool, "_train", lambda flags: 42)
    assert tool.main([*TINY, f"--data_dir={tmp_path}"]) == 42
    assert capsys.readouterr().out.count("==") == 1


@pytest.mark.slow
def test_the_command_fills_the_table(tmp_path):
    documents = [f"a{i % 7} b{i % 5} c{i % 3} d e f g. " * 9 for i in range(99)]
    (tmp_path / "corpus.txt").write_text("\n\n".join(documents))
    size, rows = tmp_path / "size.cfg", "electra_15,all_tokens_mlm,bert"
    corpus = f"--corpus={tmp_path}/corpus.txt"
    lines = [*TINY[1:], corpus, "--vocab_size=60", f"--data_dir={tmp_path}"]
    size.write_text("\n".join(lines))
    ended = subprocess.run(
        [sys.executable, TOOL, f"--flagfile={size}", f"--rows={rows}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ended.returncode == 0, ended.stderr + ended.stdout
    cells = {x.split()[0]: x.split() for x in ended.stdout.splitlines() if x}
    blanks = {name: cells[name][6:].count("-") for name in rows.split(",")}
    assert blanks == {"electra_15": 2, "all_tokens_mlm": 1, "bert": 3}
