"""The `analyze` command: the report of a checkpoint."""

import golden_weights

from electra_tf import analyze
from electra_tf.analysis.report import Report, Table
from electra_tf.checkpoint import bundles
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util.flags import parse_flags


def test_a_report_is_printed_and_only_written_if_asked(
    tmp_path, monkeypatch, capsys
):
    report = Report({}, [Table("Its value.", {"x": {"value": 10.0}})])
    monkeypatch.setattr("electra_tf.analysis.rerank.run", lambda _: report)
    model, output = tmp_path / "run/model.ckpt-10", tmp_path / "new/out"
    bundles.write(model, golden_weights.read("small_like").arrays)
    flags = ["--what=rerank", f"--model={model}", "--test=t"]
    analyze.main(parse_flags(AnalysisConfig, flags))
    assert "Its value." in capsys.readouterr().out
    assert not output.exists()
    flags.append(f"--output_dir={output}")
    analyze.main(parse_flags(AnalysisConfig, flags))
    assert {x.name for x in output.iterdir()} == {"report.json", "report.md"}
