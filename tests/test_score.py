"""The `score` command: from lines of text to lines of JSON, or to a table."""

import json

import numpy as np
import pytest
import tiny_scoring

from electra_tf import score
from electra_tf.analysis import scores as score_output
from electra_tf.analysis.scores import Repair, TextScores, TokenScore
from electra_tf.util.flags import parse_flags


def _main(model, *flags):
    flags = [f"--model={model}", *flags]
    score.main(parse_flags(score.ScoreConfig, flags))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_scoring.write_run(tmp_path_factory.mktemp("run"))[1]


def test_rows_are_scored_in_order_and_bad_ones_counted(model, tmp_path, capsys):
    rows = ["text", "w1 w2", "w3\tw3", " ", "é W4 中"]
    source, output = tmp_path / "in.tsv", tmp_path / "out.jsonl"
    source.write_text("\n".join(rows) + "\n", "utf-8")
    _main(model, f"--input={source}", f"--output={output}", "--skip_bad_rows")
    answers = [json.loads(x) for x in output.read_text("utf-8").splitlines()]
    assert [answer["line"] for answer in answers] == [2, 4, 5]
    assert [answer["text"] for answer in answers] == ["w1 w2", " ", "é W4 中"]
    captured = capsys.readouterr()
    assert captured.out == "" and "1 bad rows" in captured.err
    first, empty, last = answers
    values = [x["log_probs"]["discriminator"] for x in first["tokens"]]
    assert first["scores"]["discriminator"] == {
        "total": pytest.approx(sum(values), abs=1e-4),
        "mean": pytest.approx(np.mean(values), abs=1e-4),
        "mean_per_word": pytest.approx(np.mean(values), abs=1e-4),
        "num_tokens": 2,
    }
    assert set(empty["scores"]["discriminator"].values()) == {0}
    assert empty["tokens"] == []
    fields = ("token", "start", "end", "start_byte", "end_byte")
    tokens = [tuple(x[name] for name in fields) for x in last["tokens"]]
    assert tokens == [
        ("[UNK]", 0, 1, 0, 2),
        ("w4", 2, 4, 3, 5),
        ("[UNK]", 5, 6, 6, 9),
    ]


def test_json_lines_have_their_text_in_a_field(model, tmp_path, capsys):
    source = tmp_path / "in.jsonl"
    source.write_text('{"body": "w1", "id": 7}\n')
    flags = [f"--input={source}", "--text_field=body"]
    _main(model, *flags, "--scores=mlm,discriminator", "--num_repairs=2")
    (answer,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert answer["text"] == "w1"
    assert [*answer["scores"]] == ["mlm", "discriminator"]
    assert len(answer["tokens"][0]["repairs"]) == 2


TABLE = """\
The [Meal] ate.
  original        generated       P(replaced)     verdict         discriminator
  the                             0.25            original        -0.29
  meal            ate             0.75            replaced        -1.39
  mean log-probability, nats: discriminator -0.837"""


def test_a_table_shows_the_users_text_with_flagged_tokens_in_brackets():
    tokens = [
        TokenScore(
            *(token, start, end, start, end, p),
            {"discriminator": np.log(1 - p)},
            (Repair("ate", 0.5),),
        )
        for token, start, end, p in (("the", 0, 3, 0.25), ("meal", 4, 8, 0.75))
    ]
    scores = TextScores("The Meal ate.", tuple(tokens))
    assert score_output.table(scores) == TABLE
    assert score_output.table(TextScores(" ", ())) == " \n  (no tokens)"
