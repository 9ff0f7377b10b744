"""The `analyze` command: the report of a checkpoint."""

import json

import golden_weights
import pytest

from electra_tf import analyze
from electra_tf.analysis.report import Report, Table
from electra_tf.checkpoint import bundles
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util.errors import UserError
from electra_tf.util.flags import parse_flags


def _main(*flags):
    analyze.main(parse_flags(AnalysisConfig, ["--what=rerank", *flags]))


def test_a_report_says_what_was_analysed(tmp_path, monkeypatch, capsys):
    def analysis(config):
        return Report(
            what=config.what,
            headline={"value": 10.0},
            results={"value": 10.0},
            tables=[Table("Its value.", ("name", "value"), [("x", 10.0)])],
        )

    monkeypatch.setattr("electra_tf.analysis.rerank.run", analysis)
    model, output = tmp_path / "run/model.ckpt-10", tmp_path / "out"
    bundles.write(model, golden_weights.read("small_like").arrays)
    flags = [f"--model={model}", "--test=t"]
    _main(*flags)
    assert "Its value." in capsys.readouterr().out
    assert not output.exists()
    _main(*flags, f"--output_dir={output}")
    report = json.loads((output / "report.json").read_text("utf-8"))
    assert report["model"]["checkpoint"] == str(model)
    assert report["config"]["test"] == ["t"]
    assert report["headline"] == report["results"] == {"value": 10.0}
    assert {"electra_tf", "tensorflow"} <= report["versions"].keys()
    assert (output / "report.md").exists()


@pytest.mark.parametrize(
    "flags",
    ["--model=m", "--model=m --test=t", "--model=m --test=t --scores=mlm,mlm"],
)
def test_settings_that_cannot_be_met_are_refused(flags):
    with pytest.raises((UserError, OSError)):
        _main(*flags.split())
