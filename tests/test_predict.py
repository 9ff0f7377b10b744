"""The `predict` command: from lines of a file to lines of JSON."""

import json

import pytest
import tiny_finetuning as tiny

from electra_tf import predict
from electra_tf.data import answering
from electra_tf.util.errors import UserError
from electra_tf.util.flags import parse_flags


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "sts"
    return tiny.write_trained(path, "sts", seed=2)


def _main(*flags):
    predict.main(parse_flags(predict.PredictConfig, flags))


def test_rows_are_answered_in_order_and_bad_ones_counted(
    model, tmp_path, capsys, monkeypatch
):
    rows = ["good film\tbad plot", "it", "the plot\tit is", "a\tb\tc", "a\ta"]
    source, output = tmp_path / "in.tsv", tmp_path / "out.jsonl"
    source.write_text("\n".join(rows) + "\n", "utf-8")
    output.write_text("old", "utf-8")
    input_path = f"{tmp_path}/./in.tsv"
    flags = [f"--model={model}", f"--input={input_path}", f"--output={output}"]
    with pytest.raises(UserError):
        _main(*flags)
    assert output.read_text("utf-8") == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "in.tsv",
        "out.jsonl",
    ]
    monkeypatch.setattr(answering, "BLOCK_SIZE", 2)  # counts bad rows, too
    _main(*flags, "--skip_bad_rows")
    lines = output.read_text("utf-8").splitlines()
    answers = [json.loads(line) for line in lines]
    assert [answer["line"] for answer in answers] == [1, 3, 5]
    captured = capsys.readouterr()
    assert captured.out == ""  # only answers go to standard output
    assert "2 bad rows" in captured.err
    _main(f"--model={model}", "--text=the plot", "--text_b=it is")
    (alone,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert alone["prediction"] == pytest.approx(answers[1]["prediction"])


@pytest.mark.parametrize(
    "flags", ["--model=m --text=a --input=b", "--model=m --text_b=a"]
)
def test_flags_that_contradict_each_other_are_refused(flags):
    with pytest.raises(ValueError):
        parse_flags(predict.PredictConfig, flags.split())
