"""The `score` command: from lines of text to lines of JSON, or to a table."""

import functools
import io
import json

import numpy as np
import pytest
import tiny_scoring

from electra_tf import score
from electra_tf.analysis import networks as scoring_networks
from electra_tf.analysis.scorer import Scorer
from electra_tf.checkpoint import calibration
from electra_tf.data import answering
from electra_tf.data.tables import BadRows
from electra_tf.util.errors import UserError
from electra_tf.util.flags import parse_flags


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_scoring.write_run(tmp_path_factory.mktemp("run"))


_read = functools.cache(scoring_networks.ScoringNetworks)


@pytest.fixture(autouse=True)
def networks_are_read_once(monkeypatch):
    monkeypatch.setattr(scoring_networks, "ScoringNetworks", _read)


def _main(run, *flags):
    flags = [f"--model={run[1]}", *flags]
    score.main(parse_flags(score.ScoreConfig, flags))


def test_rows_are_scored_in_order_and_bad_ones_counted(run, tmp_path, capsys):
    rows = ["text", "w1 w2", "w3\tw3", " ", "é W4 中"]
    source, output = tmp_path / "in.tsv", tmp_path / "out.jsonl"
    source.write_text("\n".join(rows) + "\n", "utf-8")
    flags = [f"--input={source}", f"--output={output}"]
    with pytest.raises(UserError, match=r"in\.tsv, line 3: "):
        _main(run, *flags)
    assert not output.exists()
    _main(run, *flags, "--skip_bad_rows")
    answers = [json.loads(x) for x in output.read_text("utf-8").splitlines()]
    assert [answer["line"] for answer in answers] == [2, 4, 5]
    assert [answer["text"] for answer in answers] == ["w1 w2", " ", "é W4 中"]
    captured = capsys.readouterr()
    assert captured.out == "" and "1 bad rows" in captured.err

    ids = tiny_scoring.ids_of("w1 w2")
    logits = run[0].discriminate(tiny_scoring.inputs_of(ids))[0, 1:-1].numpy()
    log_probs = -np.log(1 + np.exp(logits.astype(float)))
    first, empty, last = answers
    assert first["scores"]["discriminator"] == {
        "total": pytest.approx(log_probs.sum(), abs=1e-4),
        "mean": pytest.approx(log_probs.mean(), abs=1e-4),
        "mean_per_word": pytest.approx(log_probs.sum() / 2, abs=1e-4),
        "num_tokens": 2,
    }
    assert empty["scores"].keys() == first["scores"].keys()
    assert set(empty["scores"]["discriminator"].values()) == {0}
    assert empty["tokens"] == []
    spans = [
        [token[name] for name in ("start", "end", "start_byte", "end_byte")]
        for token in last["tokens"]
    ]
    assert spans == [[0, 1, 0, 2], [2, 4, 3, 5], [5, 6, 6, 9]]
    assert [x["token"] for x in last["tokens"]] == ["[UNK]", "w4", "[UNK]"]


def test_json_lines_have_their_text_in_a_field(run, tmp_path, capsys):
    source = tmp_path / "in.jsonl"
    source.write_text('{"body": "w1", "id": 7}\n{"body": 1}\n')
    flags = [f"--input={source}", "--text_field=body"]
    with pytest.raises(UserError, match=r"in\.jsonl, line 2"):
        _main(run, *flags)
    capsys.readouterr()
    flags += ["--skip_bad_rows", "--scores=mlm,discriminator"]
    _main(run, *flags, "--num_repairs=2")
    (answer,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert answer["text"] == "w1" and [*answer["scores"]] == [
        "mlm",
        "discriminator",
    ]
    assert len(answer["tokens"][0]["repairs"]) == 2


def test_live_input_is_answered_line_by_line(run, monkeypatch, capsys):
    """Each line of a terminal is answered before the next one is read."""
    num_answered = []

    def rows():
        for number, text in enumerate(["w1", "w2 w3"], start=1):
            num_answered.append(capsys.readouterr().out.count("\n"))
            yield number, (text,)

    source = answering.InputSource("t", rows(), BadRows(), is_live=True)
    monkeypatch.setattr(answering, "of_file", lambda *_, **__: source)
    _main(run)
    assert num_answered == [0, 1]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [((), 0), (("--show",), 1), (("--show", "--num_repairs=2"), 2)],
)
def test_a_table_has_a_suggestion_for_each_token(
    run, monkeypatch, flags, expected
):
    given = []
    monkeypatch.setattr(
        Scorer, "score", lambda *_, **options: given.append(options) or []
    )
    _main(run, "--text=w1", *flags)
    assert [options["num_repairs"] for options in given] == [expected]


def test_the_temperature_is_said_once(run, capsys):
    values = calibration.Calibration(2.0, "dev text", tiny_scoring.STEP)
    calibration.write(run[1], values)
    try:
        _main(run, "--text=w1 w2", "--show")
    finally:
        (run[1] / calibration.FILE_NAME).unlink()
    captured = capsys.readouterr()
    assert captured.err.count("temperature 2.000, fitted on dev text") == 1
    assert captured.out.startswith(("w1 w2\n", "[w1]", "w1 [w2]"))


def test_standard_input_has_a_text_a_line(run, monkeypatch, capsys):
    stdin = io.TextIOWrapper(io.BytesIO(b"w1\nw2\n"))
    monkeypatch.setattr("sys.stdin", stdin)
    _main(run, "--precision=float32")
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["w1", "w2"]
