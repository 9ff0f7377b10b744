import dataclasses

import analysis_configs
import numpy as np
import pytest
from word_scorer import WordScorer

from electra_tf.analysis import errors
from electra_tf.analysis.examples import AnnotatedText
from electra_tf.analysis.scorer import Scorer
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

# On dev, 0.6 is the best threshold; on test, b is a false alarm.
TABLE = {"a": 0.9, "b": 0.8, "c": 0.6, "d": 0.5, "e": 0.2}
DEV = "a\ti\nc\ti\nd\tc\ne\tc\n\na\ti\ne\tc\n"
TEST = "a\ti\nb\tc\ne\tc\n\nd\ti\ne\tc\ne\tc\n"


@pytest.fixture
def config(tmp_path):
    (tmp_path / "dev.tsv").write_text(DEV)
    (tmp_path / "test.tsv").write_text(TEST)
    dev = (str(tmp_path / "dev.tsv"),)
    return analysis_configs.config(
        tmp_path / "test.tsv", what="errors", dev=dev
    )


def _run(config, monkeypatch, scorer=None):
    scorer = scorer or WordScorer(TABLE)
    monkeypatch.setattr(Scorer, "from_config", lambda _: scorer)
    return errors.run(config)


def test_the_threshold_is_tuned_on_dev_and_measured_on_test(
    config, monkeypatch
):
    report = _run(config, monkeypatch)
    detectors = report.results["detectors"]
    found = detectors["discriminator"]
    assert found.threshold == 0.6
    assert found.precision.value == 0.5  # a, and b
    assert found.recall.value == 0.5  # a, not d
    assert found.f_half.value == pytest.approx(0.5)
    # Of the pairs of a and d with b, e, e, e, only d and b are misordered.
    assert found.auc.value == pytest.approx(7 / 8)
    assert report.headline == {"F0.5": 0.5, "AUC": found.auc.value}
    sizes = {"num_texts": 2, "num_words": 6, "num_errors": 2}
    assert report.results["test"] == sizes
    chance = detectors["all words"]
    assert chance.precision.value == pytest.approx(2 / 6)
    assert (chance.recall.value, chance.auc.value) == (1, 0.5)
    unigram = detectors["unigram"]
    gain = found.auc.value - unigram.auc.value
    assert found.auc_over_unigram.value == pytest.approx(gain)
    assert unigram.auc_over_unigram == (0, 0, 0)
    analysis_configs.draw(report)


def test_unigram_error_score_is_the_log_of_the_vocabulary_rank():
    tokens = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "x", "y")
    (scores,) = WordScorer({}).score(["x y"])
    x, y = map(errors.unigram(Vocabulary(tokens)), scores.tokens)
    assert y - x == pytest.approx(np.log(7 / 6))


def test_repairs_are_judged_on_wrong_words_of_one_token():
    repairs = {
        "goed": ("walked", "Went", "x", "y", "z"),
        "has": ("have", "x", "y", "z", "w"),
        "a": ("the", "x", "y", "z", "w"),
        "i": ("we", "x", "y", "z", "w"),
        "he": ("He", "she", "y", "z", "w"),
    }
    scorer = WordScorer({}, repairs, ("discriminator", "mlm"))
    text = AnnotatedText(
        path="p",
        words=("goed", "has", "a", "un+known", "fine", "i", "he"),
        is_error=(True, True, True, True, False, True, True),
        corrections=tuple(
            frozenset(x.split())
            for x in ("went", "Have", "b", "k", "f", "I", "He she")
        ),
    )
    scores = list(scorer.score([text.text], num_repairs=5))
    # Not the word of two tokens, nor the right one, nor "i", whose case alone
    # is wrong. The likeliest repair of "he" is the word itself.
    ranks = errors.repair_ranks([text], scores, scorer.vocabulary)
    assert ranks == [1, 0, 5, 0]


def test_a_piece_inside_a_word_repairs_no_word():
    scorer = WordScorer({}, {"z": ("##s", "s", "x")}, ("discriminator", "mlm"))
    text = AnnotatedText(
        path="p",
        words=("z",),
        is_error=(True,),
        corrections=(frozenset({"s"}),),
    )
    scores = list(scorer.score(["z"], num_repairs=3))
    assert errors.repair_ranks([text], scores, scorer.vocabulary) == [1]


def test_repairs_are_requested_only_with_mlm_scores(config, monkeypatch):
    both = ("discriminator", "mlm")
    scorer = WordScorer(TABLE, scores=both)
    report = _run(config, monkeypatch, scorer)
    assert {asked[1:] for asked in scorer.asked} == {(both, 5)}
    assert list(report.results["detectors"])[:2] == [*both]
    scorer.asked.clear()
    alone = dataclasses.replace(config, scores=both[:1])
    report = _run(alone, monkeypatch, scorer)
    assert {asked[1:] for asked in scorer.asked} == {(both[:1], 0)}
    assert report.results["repairs"] is None


@pytest.mark.parametrize(
    ("name", "text"), [("x.txt", "a b\n"), ("x.tsv", "a\tc\n")]
)
def test_texts_without_both_kinds_of_words_are_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError):
        errors.read(analysis_configs.config(tmp_path / name), "test")
