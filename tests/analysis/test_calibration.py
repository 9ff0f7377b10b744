import numpy as np
import pytest
from tiny_analysis import WordScorer, config, draw

from electra_tf.analysis import calibration
from electra_tf.analysis.replaced_tokens import ReplacedTokens
from electra_tf.analysis.scorer import Scorer
from electra_tf.analysis.scores import Items
from electra_tf.checkpoint.loading import read_calibration

# Half of the sentences have an error.
MARKED = "a\ti\nb\tc\nc\ti\n\nb\tc\nc\tc\n\n" * 6
TABLE = {"a": 0.99, "b": 0.02, "c": 0.4}


def _replace_tokens(scorer, texts, seed):
    text = np.repeat(np.arange(len(texts)), [len(x.split()) for x in texts])
    is_replaced = np.arange(len(text)) % 3 == 0
    noise = np.random.default_rng(0).normal(size=len(text))
    logits = np.where(is_replaced, 1.0, -2.0) + 2 * noise
    return ReplacedTokens(logits, *[is_replaced] * 3, text)


@pytest.fixture
def run(tmp_path, monkeypatch):
    scorer = WordScorer(TABLE)
    scorer.directory = tmp_path
    monkeypatch.setattr(Scorer, "from_config", lambda _: scorer)
    monkeypatch.setattr(calibration, "replace_tokens", _replace_tokens)

    def make(marked=MARKED, **fields):
        paths = [tmp_path / f"{split}.tsv" for split in ("dev", "test")]
        for path in paths:
            path.write_text(marked)
        given = config(
            paths[1], what="calibration", dev=(str(paths[0]),), **fields
        )
        return calibration.run(given)

    return make


def test_human_errors_are_judged_by_word(run):
    report = run()
    results = report.results["human errors"]
    p = np.array([0.99, 0.02, 0.4, 0.02, 0.4] * 6)
    y = np.array([1, 0, 1, 0, 0] * 6)
    assert (results["num_items"], results["num_errors"]) == (30, 12)
    before = results["before"]
    assert before["brier"] == pytest.approx(np.mean((p - y) ** 2))
    # Tokens are replaced only in sentences without errors.
    assert report.results["replaced tokens"]["num_items"] == 2 * 6
    draw(report)


def test_the_temperature_is_written_only_when_asked(run, monkeypatch, tmp_path):
    at_step = str(tmp_path), WordScorer.step
    run()
    assert read_calibration(*at_step) is None
    results = run(write_calibration=True).results["human errors"]
    written = read_calibration(*at_step)
    assert written.temperature == results["temperature"]
    assert written.fitted_on.startswith("human errors in ")
    monkeypatch.setattr(calibration, "fit_temperature", lambda _: 99.99)
    run(write_calibration=True)  # of no use
    assert read_calibration(*at_step) == written


def test_a_stored_temperature_is_undone_before_another_is_fitted(
    run, monkeypatch
):
    fresh = run().results["human errors"]["temperature"]
    monkeypatch.setattr(WordScorer, "temperature", 2.5)
    temperature = run().results["human errors"]["temperature"]
    assert temperature == pytest.approx(2.5 * fresh, rel=1e-4)


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
    assert found["calibration_error"].value == pytest.approx(error)
    low, high = found["calibration_error"][1:]
    assert low < error < high
    expected = {
        "brier": np.mean((p - y) ** 2),
        "negative_log_likelihood": -np.mean(np.log(np.where(y, p, 1 - p))),
    }
    assert {k: found[k] for k in expected} == pytest.approx(expected)


def test_the_temperature_is_the_best_on_a_grid():
    items = _items(3)

    def nats(temperature):
        q = 1 / (1 + np.exp(-items.error_score / temperature))
        return -np.mean(np.log(np.where(items.is_error, q, 1 - q)))

    found = nats(calibration.fit_temperature(items))
    assert found <= min(map(nats, np.geomspace(0.1, 10, 200))) + 1e-9
    large = _items(4, 40000, sharpness=1.7)
    assert calibration.fit_temperature(large) == pytest.approx(1.7, rel=0.05)
