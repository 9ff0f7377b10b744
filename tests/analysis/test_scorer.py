"""Scores equal those of the networks, called directly on one row at a time."""

import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_scoring
from tiny_analysis import WordScorer
from tiny_scoring import ids_of, inputs_of

from electra_tf.analysis import scorer as scorer_module
from electra_tf.analysis.networks import ScoringNetworks
from electra_tf.analysis.scorer import Scorer
from electra_tf.checkpoint.loading import CALIBRATION_FILE, Calibration
from electra_tf.pretrain import export
from electra_tf.serving import saved_models
from electra_tf.util import files
from electra_tf.util.errors import ElectraWarning, UserError

TEXTS = ["w1 w2 w3 w4 w5", "W7", "", " w9  w3\tw3 ", "w1 w2 w3 w4 w50 w7 w8 w9"]
LONG = " ".join(f"w{3 * i % 55}" for i in range(23))
SCORES = {
    "electra": ("discriminator", "mlm"),
    "two_tower": ("two_tower", "discriminator"),
    "electric": ("electric",),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Returns name -> model and directory."""
    leaves = {
        "electra": {},
        "two_tower": {"generator_type": "two_tower", "mask_prob": 0.4},
        "electric": {"objective": "electric"},
    }
    return {
        name: tiny_scoring.write_run(tmp_path_factory.mktemp(name), **values)
        for name, values in leaves.items()
    }


@pytest.fixture(scope="module")
def scorers(runs):
    return {
        name: Scorer.from_checkpoint(path, batch_size=3)
        for name, (_, path) in runs.items()
    }


def _logits(model, ids):
    """Returns the logits of the tokens between [CLS] and [SEP], float64."""
    return model.discriminate(inputs_of(ids)).numpy()[0, 1:-1].astype(float)


def _two_tower(model, ids):
    """Computes log p(x_t | others) by the formula of appendix G."""
    states = model.generator(*inputs_of(ids))
    table = model.generator.word_embeddings
    logits = model.cloze_predictions(states, table).numpy()[0, 1:-1]
    m = len(ids) - 2
    q = np.exp(-tiny.softmax_nats(logits, ids[1:-1]))
    k = min(max(np.round(0.4 * (m + 2)), 1), int(0.405 * tiny.LENGTH))
    real = 1 / (1 + np.exp(_logits(model, ids)))
    return np.log(real * q / ((m - k) / k * (1 - real) + q))


FORMULAS = {
    "discriminator": lambda *x: -np.log(1 + np.exp(_logits(*x))),
    "electric": lambda *x: -_logits(*x),
    "two_tower": _two_tower,
}


def _column(found, score):
    return [token.log_probs[score] for token in found.tokens]


def _check(found, score, expected, atol=1e-5):
    np.testing.assert_allclose(
        _column(found, score), expected, rtol=1e-5, atol=atol
    )


@pytest.mark.parametrize("name", SCORES)
def test_scores_equal_their_formulas(name, runs, scorers):
    model, scorer = runs[name][0], scorers[name]
    assert scorer.scores == SCORES[name]
    assert scorer.step == tiny_scoring.STEP and scorer.max_seq_length == 16
    answers = list(scorer.score(iter(TEXTS)))
    assert [found.text for found in answers] == TEXTS
    for text, found in zip(TEXTS, answers, strict=True):
        words = [text[token.start : token.end] for token in found.tokens]
        assert words == text.split()
        assert [token.token for token in found.tokens] == text.lower().split()
        if not words:
            continue
        ids = ids_of(text)
        for score in scorer.default_scores:
            _check(found, score, FORMULAS[score](model, ids), atol=2e-5)
        replaced = [token.probability_replaced for token in found.tokens]
        if name == "electric":
            assert {*replaced} == {None}
        else:
            expected = 1 / (1 + np.exp(-_logits(model, ids)))
            np.testing.assert_allclose(replaced, expected, atol=1e-5)


def test_mlm_masks_one_token_at_a_time(runs, scorers):
    model, _ = runs["electra"]
    answers = scorers["electra"].score(TEXTS, scores=["mlm"], num_repairs=3)
    for text, found in zip(TEXTS, answers, strict=True):
        ids = ids_of(text)
        if len(ids) == 2:
            assert not found.tokens
            continue
        log_probs = tiny_scoring.mlm(model, ids)
        own = log_probs[np.arange(len(ids) - 2), ids[1:-1]]
        _check(found, "mlm", own, atol=1e-4)
        for token, row, token_id in zip(
            found.tokens, log_probs, ids[1:-1], strict=True
        ):
            others = [i for i in np.argsort(-row) if i >= 5 and i != token_id]
            expected = [f"w{i - 5}" for i in others[:3]]
            assert [repair.token for repair in token.repairs] == expected
            np.testing.assert_allclose(
                [repair.probability for repair in token.repairs],
                np.exp(row[others[:3]]),
                atol=1e-5,
            )


@pytest.mark.parametrize("name", SCORES)
def test_exports_give_the_models_own_score(name, runs, scorers, monkeypatch):
    monkeypatch.setattr(saved_models, "BLOCK_SIZE", 4)
    texts = [*TEXTS, LONG]
    network = export.networks_of(runs[name][0])["discriminator"]
    served = network.score(tf.constant(texts))
    own = scorers[name].scores[0]
    for row, found in enumerate(scorers[name].score(texts, scores=[own])):
        size = len(found.tokens)
        assert served["num_tokens"][row] == size
        tokens = [token.token.encode() for token in found.tokens]
        assert served["tokens"][row].numpy()[:size].tolist() == tokens
        _check(found, own, served["log_probs"][row][:size], atol=1e-4)
        sums = [served["total"][row], served["mean"][row]]
        expected = [found.total(own), found.mean(own)]
        np.testing.assert_allclose(sums, expected, atol=1e-3)


def test_long_texts_are_read_in_windows_and_nothing_is_cut(runs, scorers):
    model, _ = runs["electra"]
    networks = scorers["electra"].networks
    scorer = Scorer(networks, max_seq_length=8, batch_size=4)
    (found,) = scorer.score([LONG], scores=["discriminator", "mlm"])
    ids = ids_of(LONG)
    starts = [0, 3, 6, 9, 12, 15, 17]  # 23 tokens, 6 in a window
    assert len(found.tokens) == 23
    for t in (0, 3, 4, 10, 15, 16, 22):
        log_probs = found.tokens[t].log_probs
        sides = [(min(t - s, s + 5 - t), -s) for s in starts if s <= t < s + 6]
        start = -max(sides)[1]
        row = np.array([2, *ids[1 + start : 7 + start], 3], np.int32)
        real = FORMULAS["discriminator"](model, row)[t - start]
        assert log_probs["discriminator"] == pytest.approx(real, abs=1e-5)
        (words,) = tiny_scoring.mlm(model, row, [1 + t - start])
        assert log_probs["mlm"] == pytest.approx(words[ids[1 + t]], abs=1e-4)


def test_a_temperature_divides_only_logits_of_its_own_step(runs, scorers):
    (model, path), networks = runs["electra"], scorers["electra"].networks
    file = path / CALIBRATION_FILE
    fit = Calibration(2.5, "dev", tiny_scoring.STEP)
    files.write_json(file, fit._asdict())
    try:
        scorer = Scorer(networks)
        (found,) = scorer.score(["w1 w2"])
        replaced = 1 / (1 + np.exp(-_logits(model, ids_of("w1 w2")) / 2.5))
        _check(found, "discriminator", np.log(1 - replaced))
        assert scorer.temperature == 2.5 and scorer.directory == path
        files.write_json(file, fit._replace(step=fit.step + 1)._asdict())
        with pytest.warns(ElectraWarning, match="not at 7, and is not applied"):
            assert Scorer(networks).temperature == 1
    finally:
        file.unlink()


def test_another_checkpoint_fills_masks(runs):
    other, generator = runs["electra"]
    scorer = Scorer.from_checkpoint(
        runs["electric"][1], generator=str(generator)
    )
    assert scorer.scores == ("electric", "mlm")
    (found,) = scorer.score(["w3 w4"], scores=["mlm", "electric"])
    ids = ids_of("w3 w4")
    expected = tiny_scoring.mlm(other, ids)[[0, 1], ids[1:-1]]
    _check(found, "mlm", expected, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["script", "teams", "coco_lm", "mc_bert"])
def test_verdicts_are_those_of_the_objective(tmp_path, objective):
    leaves = tiny.VARIANTS.get(objective, {"objective": objective})
    model, path = tiny_scoring.write_run(tmp_path, **leaves)
    networks = ScoringNetworks(str(path))
    if objective == "mc_bert":
        assert networks.scores == ("mlm",)
        return
    inputs = tiny.batch()
    ids = inputs.input_ids.numpy()
    zeros = inputs._replace(segment_ids=inputs.segment_ids * 0)
    expected = model.discriminate(zeros).numpy()
    logits = networks.detect(ids)["logits"]
    assert "discriminator" in networks.scores
    np.testing.assert_allclose(logits[ids > 0], expected[ids > 0], atol=1e-5)


def test_scores_that_a_model_lacks_are_refused(scorers):
    for arguments in ({"scores": "mlm"}, {"num_repairs": 1}):
        with pytest.raises(UserError):
            scorers["electric"].score(["w1"], **arguments)


def test_equal_tokens_get_equal_totals_and_means():
    scorer = WordScorer(mlm={"a": -1.0, "b": -3.0}, electric={"a": 2, "b": 0})
    texts = ["a b b", "a", "", "a b b"]
    found = scorer_module.score_sentences(scorer, texts, ("electric", "mlm"))
    expected = {
        "electric, total": [2, 2, -np.inf, 2],
        "electric, mean": [2 / 3, 2, -np.inf, 2 / 3],
        "mlm, total": [-7, -1, -np.inf, -7],
        "mlm, mean": [-7 / 3, -1, -np.inf, -7 / 3],
    }
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values)
