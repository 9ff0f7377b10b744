import numpy as np
import pytest
from analysis_configs import config, draw
from word_scorer import WordScorer

from electra_tf.analysis import calibration, calibration_metrics
from electra_tf.analysis.replaced_tokens import ReplacedText, Replacer
from electra_tf.analysis.scoring.scorer import Scorer
from electra_tf.analysis.scoring.scores import Items
from electra_tf.checkpoint import calibration as stored
from electra_tf.util.errors import UserError

MARKED = "a\ti\nb\tc\nc\ti\n\nb\tc\nc\tc\n\n" * 6
TABLE = {"a": 0.99, "b": 0.02, "c": 0.4}


class _Replacer:
    """Replaces every third token; its logits are too confident."""

    has_generator = True

    def replace(self, texts):
        found = []
        for number, text in enumerate(texts):
            size = len(text.split())
            is_replaced = (np.arange(size) + number) % 3 == 0
            noise = np.random.default_rng(number).normal(size=size)
            logits = np.where(is_replaced, 1.0, -2.0) + 2 * noise
            found.append(ReplacedText(logits, *[is_replaced] * 3))
        return found


@pytest.fixture
def make_config(tmp_path, monkeypatch):
    model = tmp_path / "model"
    model.mkdir()
    scorer = WordScorer(TABLE)
    scorer.directory = model
    monkeypatch.setattr(Scorer, "from_config", lambda _: scorer)
    monkeypatch.setattr(Replacer, "for_scorer", lambda *_: _Replacer())

    def make(marked="", plain="", **fields):
        names = []
        for name, text in (("x.tsv", marked), ("x.txt", plain)):
            if text:
                (tmp_path / name).write_text(text)
                names.append(str(tmp_path / name))
        fields = {"what": "calibration", "dev": tuple(names), **fields}
        return config(*names, **fields)

    return make


def _human_errors():
    """Returns P(replaced) and the labels of the words of MARKED."""
    p = np.array([0.99, 0.02, 0.4, 0.02, 0.4] * 6)
    return p, np.array([1, 0, 1, 0, 0] * 6)


def test_human_errors_are_judged_by_word(make_config):
    report = calibration.run(make_config(marked=MARKED))
    found = report.results["human errors"]
    p, y = _human_errors()
    assert (found.num_items, found.num_errors) == (30, 12)
    gaps = [abs(1 - 0.99) / 5, 2 * abs(0 - 0.02) / 5, 2 * abs(0.5 - 0.4) / 5]
    before = found.before
    assert before.calibration_error.value == pytest.approx(sum(gaps))
    assert before.brier.score == pytest.approx(np.mean((p - y) ** 2))
    assert before.brier.remainder == pytest.approx(0, abs=1e-9)
    nats = -np.mean(np.log(np.where(y, p, 1 - p)))
    assert before.negative_log_likelihood == pytest.approx(nats)
    assert before.num_flagged == 6
    flagged = before.calibration_error_of_flagged
    assert flagged.value == pytest.approx(0.01)


def test_words_without_tokens_are_not_judged(make_config):
    found = calibration.run(make_config(marked="a\ti\n~\ti\nb\tc\n")).results
    assert found["human errors"].num_items == 2


def test_a_temperature_fitted_on_dev_improves_the_likelihood(make_config):
    plain = "one two three four five six\n" * 40
    found = calibration.run(make_config(plain=plain)).results
    (found,) = found.values()
    assert found.num_items == 240
    assert found.temperature > 1.2  # the logits are too confident
    nats = found.before.negative_log_likelihood
    assert found.after.negative_log_likelihood < nats


def test_tokens_are_replaced_only_in_texts_without_errors(make_config):
    """Half of the sentences of MARKED have an error."""
    found = calibration.run(make_config(marked=MARKED)).results
    assert list(found) == ["human errors", "replaced tokens"]
    assert found["replaced tokens"].num_items == 2 * 6


def test_the_temperature_is_written_only_when_asked(make_config, tmp_path):
    calibration.run(make_config(marked=MARKED))
    assert stored.read(tmp_path / "model") is None
    writing_config = make_config(marked=MARKED, write_calibration=True)
    found = calibration.run(writing_config).results["human errors"]
    written = stored.read(tmp_path / "model")
    assert written.temperature == found.temperature
    assert written.step == WordScorer.step
    assert written.fitted_on.startswith("human errors in ")


def test_a_temperature_of_no_use_is_not_written(
    make_config, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(calibration_metrics, "fit_temperature", lambda _: 99.99)
    calibration.run(make_config(marked=MARKED, write_calibration=True))
    assert stored.read(tmp_path / "model") is None
    assert "not written" in capsys.readouterr().out


def test_a_stored_temperature_is_undone_before_another_is_fitted(
    make_config, monkeypatch
):
    given = make_config(marked=MARKED)
    fresh = calibration.run(given).results["human errors"]
    monkeypatch.setattr(WordScorer, "temperature", 2.5)
    found = calibration.run(given).results["human errors"]
    assert found.temperature == pytest.approx(2.5 * fresh.temperature, rel=1e-4)


def test_intervals_hold_the_figures():
    rng = np.random.default_rng(0)
    items = Items(
        rng.normal(size=600), rng.random(600) < 0.5, np.repeat(range(60), 10)
    )
    found = calibration.measure(config(), items)
    for interval in found[:2]:
        assert interval.low < interval.value < interval.high


def test_nothing_flagged_has_no_calibration_error():
    items = Items(np.full(4, -3.0), np.arange(4) == 0, np.arange(4))
    found = calibration.measure(config(), items)
    assert found.num_flagged == 0
    assert np.isnan(found.calibration_error_of_flagged.value)


def test_splits_of_errors_alone_have_nothing_to_calibrate(make_config):
    with pytest.raises(UserError, match="neither in dev, neither in test"):
        calibration.run(make_config(marked="a\ti\nc\ti\n"))


def test_tokens_belong_to_their_text(make_config, monkeypatch):
    seen, bins_by_text = [], calibration_metrics.bins_by_text

    def spy(items, *arguments):
        seen.append(items.text.tolist())
        return bins_by_text(items, *arguments)

    monkeypatch.setattr(calibration_metrics, "bins_by_text", spy)
    calibration.run(make_config(plain="one two\nthree four five\n"))
    assert seen[0] == [0, 0, 1, 1, 1]


def test_tables_and_plots_show_both_kinds(make_config):
    report = calibration.run(make_config(marked=MARKED))
    assert len(report.tables) == 2
    assert {*draw(report)} == {
        "reliability_human_errors",
        "reliability_replaced_tokens",
    }


@pytest.fixture
def dev(tmp_path):
    (tmp_path / "dev.tsv").write_text("a\ti\nb\tc\n")
    return (str(tmp_path / "dev.tsv"),)


def test_items_of_only_one_split_are_left_out_with_a_warning(
    make_config, dev, capsys
):
    found = calibration.run(make_config(marked=MARKED, dev=dev)).results
    assert list(found) == ["human errors"]
    assert "Only one split has replaced tokens" in capsys.readouterr().err


def test_splits_without_a_kind_in_common_are_refused(
    make_config, dev, tmp_path
):
    (tmp_path / "other.txt").write_text("x y\n")
    test = (str(tmp_path / "other.txt"),)
    with pytest.raises(UserError, match="human errors in dev, replaced tokens"):
        calibration.run(make_config(dev=dev, test=test))
