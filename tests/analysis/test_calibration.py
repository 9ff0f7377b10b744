import numpy as np
import pytest
import tiny_scoring
from analysis_configs import config
from word_scorer import WordScorer

from electra_tf.analysis import calibration
from electra_tf.analysis.replaced_tokens import ReplacedText
from electra_tf.analysis.scorer import Scorer
from electra_tf.analysis.words import Items
from electra_tf.checkpoint import calibration as stored
from electra_tf.util.errors import UserError

MARKED = "a\ti\nb\tc\nc\ti\n\nb\tc\nc\tc\n\n" * 6
TABLE = {"a": 0.99, "b": 0.02, "c": 0.4}


def _replace_tokens(scorer, texts, seed):
    """Replaces every third token; the logits are too confident."""
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
    scorer.networks.generator = "one"
    monkeypatch.setattr(calibration, "replace_tokens", _replace_tokens)

    def make(marked="", plain="", **fields):
        names = []
        for name, text in (("x.tsv", marked), ("x.txt", plain)):
            if text:
                names.append(name)
                for split in ("dev", "test"):
                    (tmp_path / f"{split}_{name}").write_text(text)
        dev, test = (
            tuple(str(tmp_path / f"{split}_{name}") for name in names)
            for split in ("dev", "test")
        )
        fields = {"what": "calibration", "dev": dev, **fields}
        return config(*test, **fields)

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
    assert before.brier == pytest.approx(np.mean((p - y) ** 2))
    parts = before.reliability - before.resolution + 0.4 * 0.6
    assert before.brier == pytest.approx(parts)  # P is the same in a bin
    nats = -np.mean(np.log(np.where(y, p, 1 - p)))
    assert before.negative_log_likelihood == pytest.approx(nats)
    assert found.num_flagged == 6
    flagged = before.calibration_error_of_flagged
    assert flagged.value == pytest.approx(0.01)


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
    make_config, monkeypatch, tmp_path
):
    monkeypatch.setattr(calibration, "fit_temperature", lambda _: 99.99)
    calibration.run(make_config(marked=MARKED, write_calibration=True))
    assert stored.read(tmp_path / "model") is None


def test_a_stored_temperature_is_undone_before_another_is_fitted(
    make_config, monkeypatch
):
    given = make_config(marked=MARKED)
    fresh = calibration.run(given).results["human errors"]
    monkeypatch.setattr(WordScorer, "temperature", 2.5)
    found = calibration.run(given).results["human errors"]
    assert found.temperature == pytest.approx(2.5 * fresh.temperature, rel=1e-4)


def test_splits_of_errors_alone_have_nothing_to_calibrate(make_config):
    with pytest.raises(UserError):
        calibration.run(make_config(marked="a\ti\nc\ti\n"))


def _items(seed=0, size=400, sharpness=2.0):
    """Returns items whose logits are `sharpness` times the true ones."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(-1, 2, size)
    p = 1 / (1 + np.exp(-logits / sharpness))
    text = np.sort(rng.integers(0, 30, size))
    text[-1] = 29
    return Items(logits, rng.random(size) < p, text)


def test_measures_equal_their_formulas():
    items = _items()
    p, y = 1 / (1 + np.exp(-items.error_score)), items.is_error
    rows, edges = [], np.linspace(0, 1, 16)
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        if (here := (p >= low) & (p < high)).any():
            rows.append((here.mean(), p[here].mean(), y[here].mean()))
    found = calibration.measure(config(), items)
    error = sum(n * abs(a - b) for n, a, b in rows)
    assert found.calibration_error.value == pytest.approx(error)
    assert found.calibration_error.low < error < found.calibration_error.high
    assert found.brier == pytest.approx(np.mean((p - y) ** 2))
    reliability = sum(n * (a - b) ** 2 for n, a, b in rows)
    assert found.reliability == pytest.approx(reliability)
    resolution = sum(n * (b - y.mean()) ** 2 for n, _, b in rows)
    assert found.resolution == pytest.approx(resolution)
    nats = -np.mean(np.log(np.where(y, p, 1 - p)))
    assert found.negative_log_likelihood == pytest.approx(nats)


def test_the_temperature_is_the_best_on_a_grid():
    items = _items(3)

    def nats(temperature):
        q = 1 / (1 + np.exp(-items.error_score / temperature))
        return -np.mean(np.log(np.where(items.is_error, q, 1 - q)))

    found = nats(calibration.fit_temperature(items))
    assert found <= min(map(nats, np.geomspace(0.1, 10, 200))) + 1e-9
    large = _items(4, 40000, sharpness=1.7)
    assert calibration.fit_temperature(large) == pytest.approx(1.7, rel=0.05)


def test_the_scorer_finds_the_temperature_that_was_written(
    tmp_path, monkeypatch
):
    _, model = tiny_scoring.write_run(tmp_path / "run")
    for split in ("dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("w1\tc\nw2\ti\n\n" * 4)
    dev = (str(tmp_path / "dev.tsv"),)
    given = config(
        tmp_path / "test.tsv", model=str(model), dev=dev, write_calibration=True
    )
    monkeypatch.setattr(calibration, "fit_temperature", lambda _: 2.5)
    calibration.run(given)
    assert Scorer.from_config(given).temperature == 2.5
