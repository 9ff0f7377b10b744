"""A vocabulary is learned once and is checked when it is opened."""

import dataclasses
import json
import random
import re

import multilingual
import pytest

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import dataset_builder, vocabularies
from electra_tf.data.reading import Records
from electra_tf.data.vocabularies import (
    build_vocabulary,
    open_vocabulary,
    sample,
)
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.util import console, storage
from electra_tf.util.errors import DirectoryInUseError, UserError
from electra_tf.util.locks import DirectoryLock, lock_directory


@pytest.fixture
def config(tmp_path):
    rng = random.Random(0)
    lines = [rng.choice(multilingual.SENTENCES) for _ in range(300)]
    (tmp_path / "corpus.txt").write_text("\n\n".join(lines))
    return CorpusConfig(
        corpus=(str(tmp_path / "corpus.txt"),),
        vocab_size=450,
        max_seq_length=32,
    )


def build(config, path):
    log_lines = []
    vocabulary = build_vocabulary(config, str(path), log=log_lines.append)
    return vocabulary, log_lines


def test_a_vocabulary_is_never_overwritten(config, tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("mine")
    with pytest.raises(UserError, match="vocab.txt"):
        build(config, path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("ending", ["", "/", "/new/"])
def test_a_vocabulary_that_is_a_directory_is_refused(config, tmp_path, ending):
    with pytest.raises(UserError, match="a directory. Name a file in it"):
        build_vocabulary(config, f"{tmp_path}{ending}")
    assert [x.name for x in tmp_path.iterdir()] == ["corpus.txt"]


def test_a_vocabulary_is_learned_by_one_process_at_a_time(config, root):
    """Else two runs in one directory would each write their own."""
    storage.make_directories(root)
    path, lock = f"{root}/vocab.txt", ".vocab.txt.lock"
    with lock_directory(root, lock, "wait"):
        with pytest.raises(DirectoryInUseError, match="another --vocab_file"):
            build(config, path)
    build(config, path)
    assert storage.exists(path) and not storage.exists(f"{root}/{lock}")


def test_a_vocabulary_that_came_meanwhile_is_kept(
    config, tmp_path, monkeypatch
):
    path = tmp_path / "vocab.txt"
    enter = DirectoryLock.__enter__

    def enter_late(lock):
        path.write_text("of another process")
        enter(lock)

    monkeypatch.setattr(DirectoryLock, "__enter__", enter_late)
    with pytest.raises(UserError, match="never overwritten"):
        build(config, path)
    assert path.read_text() == "of another process"


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_records_of_a_sentencepiece_model_open_again(
    config, tmp_path, model_type
):
    config = dataclasses.replace(
        config,
        tokenizer="sentencepiece",
        sentencepiece_model_type=model_type,
        pad_vocab_to_multiple=8,
    )
    path = tmp_path / "spm.model"
    built, log_lines = build(config, path)
    assert log_lines[-1].startswith(f"Learned {built.size}")
    vocabulary = open_vocabulary(config, str(path))
    assert vocabulary.size % 8 == 0
    assert vocabulary.tokens[: built.size] == built.tokens
    out = tmp_path / "records"
    manifest = dataset_builder.build(config, vocabulary, output_dir=str(out))
    assert manifest == json.loads((out / "manifest.json").read_text())
    assert manifest["tokenizer"] == "sentencepiece"
    assert manifest["pad_vocab_to_multiple"] == 8
    assert manifest["vocab_size"] == vocabulary.size
    counts = manifest["counts"]
    assert counts["tokens_kept"] == counts["tokens_read"] > 0
    records = Records.open(f"{out}/pretrain_data*", config, vocabulary)
    assert records.num_records > 0
    unpadded = dataclasses.replace(config, pad_vocab_to_multiple=1)
    with pytest.raises(UserError, match="pad_vocab_to_multiple is 8 in the"):
        Records.open(f"{out}/pretrain_data*", unpadded, built)


def test_a_sentencepiece_model_of_other_letter_case_is_refused(
    config, tmp_path
):
    config = dataclasses.replace(config, tokenizer="sentencepiece")
    cased = dataclasses.replace(config, do_lower_case=False)
    uncased_model, cased_model = (
        str(tmp_path / name) for name in ("uncased.model", "cased.model")
    )
    build(config, uncased_model)
    build(cased, cased_model)
    accented = dataclasses.replace(config, strip_accents=False)
    for other in (cased, accented):
        with pytest.raises(
            UserError, match="Set --do_lower_case --strip_accents"
        ):
            open_vocabulary(other, uncased_model)
    assert open_vocabulary(cased, cased_model)  # strips nothing


@pytest.mark.parametrize("multiple", [1, 2, 8, 64])
def test_padding_adds_names_that_are_new(multiple):
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "[unused0]", "[unused2]"))
    padded = vocabulary.padded(multiple)
    assert padded.size == -(-7 // multiple) * multiple
    assert padded.tokens[:7] == vocabulary.tokens
    assert len(set(padded.tokens)) == padded.size
    if multiple == 2:
        assert padded.tokens[7] == "[unused1]"


DOCUMENTS = [[f"line {i}", "ü" * (i % 7)] for i in range(200)]


def size(documents):
    return sum(len(line.encode()) + 1 for d in documents for line in d)


@pytest.mark.parametrize("num_bytes", [1, 100, 1000, 10**6])
def test_a_sample_is_of_the_size_asked_for_or_one_document(num_bytes):
    chosen = list(sample(DOCUMENTS, num_bytes))
    assert chosen == [d for d in DOCUMENTS if d in chosen]
    assert size(chosen) <= num_bytes or len(chosen) == 1
    assert size(chosen) > num_bytes - 40 or chosen == DOCUMENTS
    backwards = list(sample(DOCUMENTS[::-1], num_bytes))
    assert sorted(chosen) == sorted(backwards)
    numbers = [int(document[0].split()[1]) for document in chosen]
    if len(chosen) > 30:
        assert min(numbers) < 50
        assert max(numbers) > 150


def test_only_the_sample_is_learned_from(config, tmp_path, monkeypatch):
    seen = []

    def learn(lines, **_):
        seen.extend(lines)
        return SPECIAL_TOKENS

    monkeypatch.setattr(vocabularies, "learn_vocabulary", learn)
    config = dataclasses.replace(config, vocab_sample_bytes=2000)
    build(config, tmp_path / "vocab.txt")
    assert 1500 < size([seen]) <= 2000
    config = dataclasses.replace(config, vocab_sample_bytes=0)
    seen.clear()
    build(config, tmp_path / "all.txt")
    assert len(seen) == 300


def test_learning_logs_its_progress_and_why_tokens_are_missing(
    config, tmp_path, monkeypatch
):
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LOGS", 0)
    config = dataclasses.replace(config, vocab_size=20_000)
    vocabulary, log_lines = build(config, tmp_path / "vocab.txt")
    size = (tmp_path / "corpus.txt").stat().st_size
    log_text = "\n".join(log_lines)
    assert re.search(
        rf"Reading: 300 documents, .* about {size / 1e6:.1f} MB", log_text
    )
    assert re.search(r"Learning: [0-9,]+ pieces are used \d+ times", log_text)
    assert log_lines[-2] == (
        f"{20_000 - vocabulary.size:,} tokens fewer than `vocab_size`: no "
        "other piece occurs at least 2 times in this text. Give more text, or "
        "a smaller --vocab_size."
    )


@pytest.mark.parametrize(
    ("tokenizer", "reason"),
    [
        ("wordpiece", "no other piece occurs at least 2 times"),
        ("sentencepiece", "SentencePiece finds no other pieces"),
    ],
)
def test_a_sample_that_gives_too_few_tokens_is_named(
    config, tmp_path, tokenizer, reason
):
    config = dataclasses.replace(
        config, tokenizer=tokenizer, vocab_size=2000, vocab_sample_bytes=5000
    )
    name = "vocab.txt" if tokenizer == "wordpiece" else "spm.model"
    vocabulary, log_lines = build(config, tmp_path / name)
    num_bytes = (tmp_path / "corpus.txt").stat().st_size
    assert log_lines[-2] == (
        f"{2000 - vocabulary.size:,} tokens fewer than `vocab_size`: {reason} "
        f"in 5,000 of {num_bytes:,} bytes of text. Set a larger "
        "--vocab_sample_bytes, or a smaller --vocab_size."
    )
