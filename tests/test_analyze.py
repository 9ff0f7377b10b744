"""The `analyze` command: reports on one checkpoint, or on all of a run."""

import dataclasses
import json

import golden_weights
import pytest
import tiny

from electra_tf import analyze
from electra_tf.analysis import rerank
from electra_tf.analysis.report import Report, Table
from electra_tf.checkpoint import bundles
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.pretrain.flops import training_flops
from electra_tf.util.errors import UserError
from electra_tf.util.flags import parse_flags, save_config

STEPS = (5, 10, 20)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Returns the directory of a run of twenty updates, and its config."""
    directory = tmp_path_factory.mktemp("run")
    arrays = golden_weights.read("small_like").arrays
    for step in STEPS:
        bundles.write(directory / f"model.ckpt-{step}", arrays)
    config = tiny.config(num_attention_heads=4)
    runtime = dataclasses.replace(
        config.runtime, checkpoint_milestones=(0.25, 0.5)
    )
    config = dataclasses.replace(config, runtime=runtime)
    save_config(directory / "config.json", config)
    return directory, config


@pytest.fixture
def analysed_models(monkeypatch):
    """Installs a fake analysis; returns the list of models that it gets."""
    models = []

    def analysis(config):
        models.append(config.model)
        value = float(config.model.rpartition("-")[2])
        return Report(
            what=config.what,
            headline={"value": value},
            results={"value": value},
            tables=[Table("Its value.", ("name", "value"), [("x", value)])],
        )

    monkeypatch.setattr("electra_tf.analysis.rerank.run", analysis)
    return models


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.json"
    path.write_text("[]", "utf-8")
    return path


def _main(*flags):
    config = parse_flags(AnalysisConfig, ["--what=rerank", *flags])
    analyze.main(config)


def _read(path):
    return json.loads(path.read_text("utf-8"))


def test_a_report_says_what_was_analysed(
    run, analysed_models, data, tmp_path, capsys
):
    model, output = run[0] / "model.ckpt-10", tmp_path / "out"
    flags = [f"--model={model}", f"--test={data}"]
    _main(*flags)
    assert "Its value." in capsys.readouterr().out
    assert not output.exists()
    _main(*flags, f"--output_dir={output}")
    report = _read(output / "report.json")
    assert report["model"]["checkpoint"] == str(model)
    assert report["config"]["test"] == [str(data)]
    assert report["headline"] == report["results"] == {"value": 10.0}
    assert {"electra_tf", "tensorflow"} <= report["versions"].keys()
    assert (output / "report.md").exists()


def test_all_checkpoints_make_a_curve_over_flops(
    run, analysed_models, data, tmp_path, capsys
):
    directory, config = run
    flags = [f"--model={directory}", f"--test={data}", "--all_checkpoints"]
    _main(*flags, f"--output_dir={tmp_path}/out")
    assert analysed_models == [
        f"{directory}/model.ckpt-{step}" for step in STEPS
    ]
    report = _read(tmp_path / "out/report.json")
    arrays = golden_weights.read("small_like").arrays
    vocab_size = len(arrays["electra/embeddings/word_embeddings"])
    assert report["results"]["checkpoints"] == [
        {
            "step": step,
            "flops": training_flops(config, vocab_size, step),
            "share": step / 20,
            "is_milestone": step < 20,
            "headline": {"value": step},
        }
        for step in STEPS
    ]
    assert (tmp_path / "out/curve_value.png").exists()
    for step in STEPS:
        part = _read(tmp_path / f"out/checkpoint-{step}/report.json")
        assert part["headline"] == {"value": step}
    capsys.readouterr()
    _main(*flags)  # without files
    assert analysed_models[3:] == analysed_models[:3]
    assert "10 *" in capsys.readouterr().out


def test_only_missing_or_outdated_reports_are_recomputed(
    run, analysed_models, data, tmp_path
):
    flags = [f"--model={run[0]}", "--all_checkpoints"]
    flags += [f"--test={data}", f"--output_dir={tmp_path}/out"]
    _main(*flags)
    first = _read(tmp_path / "out/report.json")
    (tmp_path / "out/checkpoint-10/report.json").unlink()
    analysed_models.clear()
    _main(*flags)
    assert analysed_models == [f"{run[0]}/model.ckpt-10"]
    assert _read(tmp_path / "out/report.json") == first
    data.write_text("[1]", "utf-8")
    analysed_models.clear()
    _main(*flags)
    assert len(analysed_models) == 3
    analysed_models.clear()
    _main(*flags, "--seed=3")
    assert len(analysed_models) == 3


def test_a_stop_keeps_the_checkpoints_that_are_done(
    run, analysed_models, data, tmp_path, monkeypatch
):
    flags = [f"--model={run[0]}", "--all_checkpoints"]
    flags += [f"--test={data}", f"--output_dir={tmp_path}/out"]
    run_analysis = rerank.run

    def stops(config):
        if config.model.endswith("-20"):
            raise KeyboardInterrupt
        return run_analysis(config)

    monkeypatch.setattr(rerank, "run", stops)
    with pytest.raises(KeyboardInterrupt):
        _main(*flags)
    monkeypatch.setattr(rerank, "run", run_analysis)
    analysed_models.clear()
    _main(*flags)
    assert analysed_models == [f"{run[0]}/model.ckpt-20"]


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--model=m"],
        ["--model=m", "--test=t"],
        ["--model=m", "--test=t", "--all_checkpoints"],
        ["--model=m", "--test=t", "--scores=mlm,mlm"],
        ["--model=m", "--test=t", "--what=rank"],
        [
            *("--model=m", "--test=t", "--what=calibration"),
            *("--write_calibration", "--all_checkpoints"),
        ],
    ],
)
def test_settings_that_cannot_be_met_are_refused(flags):
    with pytest.raises((UserError, OSError)):
        _main(*flags)
