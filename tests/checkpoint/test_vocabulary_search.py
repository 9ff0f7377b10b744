"""A run's checkpoint is read with the vocabulary that the run trained with."""

import json
import shutil

import pytest

from electra_tf.checkpoint import vocabulary_search
from electra_tf.model import sentencepiece_model
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "a", "b", "c"))
OTHER = Vocabulary((*SPECIAL_TOKENS, "c", "b", "a"))
WORD_PIECES = {"tokenizer": "wordpiece", "vocab_file": ""}
PIECES = {"tokenizer": "sentencepiece", "vocab_file": ""}


@pytest.fixture
def run(tmp_path):
    """Returns the directory of a run beside whose data is `OTHER`."""
    directory = tmp_path / "data/models/run"
    directory.mkdir(parents=True)
    (tmp_path / "data/vocab.txt").write_bytes(OTHER.content)
    return directory


def _store_digest(run, vocabulary):
    (run / "inputs.json").write_text(
        json.dumps({"vocabulary": vocabulary.sha256})
    )


def test_a_sentencepiece_model_is_not_mistaken_for_word_pieces(run):
    data_dir = run.parent.parent
    text = ["a b c ab bc abc", "ab ab bc"]
    content = sentencepiece_model.learn(
        text,
        model_type="unigram",
        vocab_size=16,
        do_lower_case=True,
        strip_accents=True,
    )
    (data_dir / "spm.model").write_bytes(content)
    found = vocabulary_search.find(run, PIECES)
    assert found.sentencepiece == content
    assert vocabulary_search.find(run, WORD_PIECES) == OTHER
    (data_dir / "spm.model").unlink()
    assert vocabulary_search.find(run, PIECES) is None


@pytest.mark.parametrize("has_digest", [True, False])
@pytest.mark.parametrize("is_moved", [True, False])
def test_the_named_file_is_read_before_that_of_the_data(
    run, tmp_path, has_digest, is_moved
):
    data_dir = run.parent.parent
    (data_dir / "mine.txt").write_bytes(VOCABULARY.content)
    settings = WORD_PIECES | {"vocab_file": str(data_dir / "mine.txt")}
    if has_digest:
        _store_digest(run, VOCABULARY)
    if is_moved:
        shutil.move(data_dir, tmp_path / "moved")
        run = tmp_path / "moved/models/run"
    assert vocabulary_search.find(run, settings) == VOCABULARY


def test_another_vocabulary_than_in_training_is_refused(run):
    _store_digest(run, VOCABULARY)
    message = r"run must be the one.*data/vocab\.txt, with other.*--vocab_file"
    with pytest.raises(UserError, match=message):
        vocabulary_search.find(run, WORD_PIECES)
    (run / "vocab.txt").write_bytes(VOCABULARY.content)
    assert vocabulary_search.find(run, WORD_PIECES) == VOCABULARY


def test_tokens_that_pad_the_vocabulary_of_a_run_are_no_other_tokens(run):
    _store_digest(run, OTHER.padded(16))
    settings = WORD_PIECES | {"pad_vocab_to_multiple": 16}
    assert vocabulary_search.find(run, settings) == OTHER
    with pytest.raises(UserError, match="with other tokens"):
        vocabulary_search.find(run, WORD_PIECES)


def test_bundles_of_no_run_have_any_vocabulary_beside_them(run, tmp_path):
    assert vocabulary_search.find(run, {}) == OTHER
    (run / "vocab.txt").write_bytes(VOCABULARY.content)
    assert vocabulary_search.find(run, {}) == VOCABULARY
    assert vocabulary_search.find(tmp_path, {}) is None


@pytest.mark.parametrize(
    "settings",
    [{"tokenizer": "bytes"}, {"tokenizer": []}, {"vocab_file": 3}],
)
def test_a_malformed_configuration_is_named(run, settings):
    with pytest.raises(UserError, match=r"run/config\.json: .* must "):
        vocabulary_search.find(run, settings)
