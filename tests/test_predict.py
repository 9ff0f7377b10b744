"""The `predict` command: from lines of a file to lines of JSON."""

import json

import pytest
import tiny_finetuning as tiny

from electra_tf import predict
from electra_tf.util.flags import parse_flags


def _main(*flags):
    predict.main(parse_flags(predict.PredictConfig, flags))


def test_rows_are_answered_in_order_and_bad_ones_counted(tmp_path, capsys):
    model = tiny.write_trained(tmp_path / "sts", "sts", seed=2)
    source, output = tmp_path / "in.tsv", tmp_path / "out.jsonl"
    source.write_text("good film\tbad plot\nit\nthe plot\tit is\n", "utf-8")
    flags = [f"--model={model}", f"--input={source}", f"--output={output}"]
    _main(*flags, "--skip_bad_rows")
    answers = [json.loads(x) for x in output.read_text("utf-8").splitlines()]
    assert [answer["line"] for answer in answers] == [1, 3]
    captured = capsys.readouterr()
    assert captured.out == ""  # only answers go to standard output
    assert "1 bad rows" in captured.err
    _main(f"--model={model}", "--text=the plot", "--text_b=it is")
    (alone,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert alone["prediction"] == pytest.approx(answers[1]["prediction"])


@pytest.mark.parametrize(
    "flags", ["--model=m --text=a --input=b", "--model=m --text_b=a"]
)
def test_flags_that_contradict_each_other_are_refused(flags):
    with pytest.raises(ValueError):
        parse_flags(predict.PredictConfig, flags.split())
