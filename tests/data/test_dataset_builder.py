"""A build keeps every token, is deterministic, and publishes all or nothing."""

import collections
import contextlib
import dataclasses
import json
import pathlib
import shutil

import golden_arrays
import pytest
import tensorflow as tf
from tiny_corpus import DOCUMENTS, LENGTH, VOCABULARY, build, contents, rows_of

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import dataset_builder, packing, shards
from electra_tf.data.held_out import Splitter
from electra_tf.data.reading import Records
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

GOLDEN = golden_arrays.FULL / "data"


@pytest.fixture
def out(built, tmp_path):
    """A copy of the data set, which a test may change."""
    return shutil.copytree(built, tmp_path / "out")


def train_rows(directory):
    return rows_of(sorted(directory.glob("pretrain_data*")))


def held_out_rows(directory):
    return rows_of(sorted(directory.glob("held_out_data*")))


def count_words(rows):
    counts = collections.Counter(i for row in rows for i in row)
    for special in (VOCABULARY.cls_id, VOCABULARY.sep_id):
        del counts[special]
    return counts


def words_of(documents):
    text = " ".join(line for document in documents for line in document)
    ids = {token: i for i, token in enumerate(VOCABULARY.tokens)}
    return collections.Counter(ids[word] for word in text.lower().split())


def test_every_token_of_the_corpus_is_in_one_record(config, built):
    train, held_out = train_rows(built), held_out_rows(built)
    assert count_words(train + held_out) == words_of(DOCUMENTS)
    for name, rows in (("pretrain_data", train), ("held_out_data", held_out)):
        opened = Records.open(f"{built}/{name}*", config, VOCABULARY)
        assert opened.num_records == len(rows)
    counts = json.loads((built / "manifest.json").read_text())["counts"]
    assert counts["documents"] == len(DOCUMENTS)
    assert counts["tokens_read"] == words_of(DOCUMENTS).total()
    assert counts["tokens_kept"] == counts["tokens_read"]
    assert counts["tokens_dropped"] == 0
    assert counts["records"] == len(train) + len(held_out)
    assert counts["held_out_records"] == len(held_out) > 0
    num_tokens = sum(map(len, train + held_out))
    share = 1 - num_tokens / (LENGTH * counts["records"])
    assert counts["padding_share"] == pytest.approx(share, abs=1e-6)
    unigrams = (built / "unigram_counts.txt").read_text().split()
    found = {i: int(n) for i, n in enumerate(unigrams) if int(n)}
    assert found == dict(count_words(train))
    assert counts["train_tokens"] == sum(found.values())
    assert len(unigrams) == VOCABULARY.size


def test_unknown_tokens_of_the_training_records_are_counted(config, tmp_path):
    known = Vocabulary(VOCABULARY.tokens[:200])
    counts = build(config, tmp_path, known)["counts"]
    ids = [i for row in train_rows(tmp_path) for i in row]
    assert counts["unknown_train_tokens"] == ids.count(known.unk_id) > 0
    words = counts["train_tokens"] - counts["unknown_train_tokens"]
    assert words == sum(i > known.mask_id for i in ids) > 0


def test_the_split_keeps_documents_whole(config, built):
    splitter = Splitter(config.held_out_fraction, config.data_seed)
    held_out = [
        document.lines
        for document in splitter.assign(
            [line.strip() for line in document] for document in DOCUMENTS
        )
        if document.split == "held_out"
    ]
    assert count_words(held_out_rows(built)) == words_of(held_out)
    manifest = json.loads((built / "manifest.json").read_text())
    assert manifest["counts"]["held_out_documents"] == len(held_out)
    num_train = len(DOCUMENTS) - len(held_out)
    for split, number in (("train", num_train), ("held_out", len(held_out))):
        assert manifest["document_tokens"][split]["documents"] == number


def test_records_do_not_depend_on_files_shards_batches_or_threads(
    config, built, tmp_path, monkeypatch, small_shards
):
    monkeypatch.setattr(packing, "BATCH_CHARACTERS", 500)
    monkeypatch.setattr(packing, "MAX_THREADS", 1)
    several = tmp_path / "several"
    several.mkdir()
    for i, document in enumerate(reversed(DOCUMENTS)):
        (several / f"{i}.txt").write_text("\n".join(document))
    config = dataclasses.replace(config, corpus=(str(several),), num_shards=3)
    build(config, tmp_path / "out")
    for rows in (train_rows, held_out_rows):
        assert sorted(rows(tmp_path / "out")) == sorted(rows(built))
    ours, theirs = (
        (directory / "unigram_counts.txt").read_bytes()
        for directory in (tmp_path / "out", built)
    )
    assert ours == theirs


def test_the_same_build_gives_the_same_bytes(config, built, tmp_path):
    manifest = build(config, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(built)
    assert manifest == json.loads((built / "manifest.json").read_text())


def test_another_seed_gives_other_records(config, built, tmp_path):
    build(dataclasses.replace(config, data_seed=1), tmp_path)
    assert sorted(train_rows(tmp_path)) != sorted(train_rows(built))


def test_a_data_set_is_not_overwritten_unasked(config, built, out):
    phases = dataclasses.replace(config, seq_length_phases="16:0.9,32:0.1")
    shutil.copytree(out, out.parent / "new_16")
    for requested, directory in ((config, out), (phases, out.parent / "new")):
        with pytest.raises(UserError, match="--overwrite"):
            build(requested, directory)
    assert contents(out) == contents(built)
    assert not (out.parent / "new").exists()
    (out / "manifest.json").unlink()
    with pytest.raises(UserError, match="--overwrite"):
        build(config, out)


def test_a_data_set_that_came_meanwhile_is_kept(config, tmp_path, monkeypatch):
    def lock(directory, *_):
        (tmp_path / "manifest.json").write_text("of another process")
        return contextlib.nullcontext()

    monkeypatch.setattr(dataset_builder, "lock_directory", lock)
    with pytest.raises(UserError, match="--overwrite"):
        build(config, tmp_path)
    assert contents(tmp_path) == {"manifest.json": b"of another process"}


def test_the_end_of_the_reader_of_the_log_is_no_fault_of_the_disk(
    config, tmp_path
):
    class Runner:
        def map_shards(self, job, shards, report):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        build(config, tmp_path, runner=Runner())


def test_overwriting_leaves_nothing_of_the_older_data_set(config, out):
    (out / "pretrain_data.tfrecord-7-of-9").write_text("old")
    config = dataclasses.replace(config, num_shards=3)
    build(config, out, overwrite=True)
    assert sorted(path.name for path in out.iterdir()) == [
        "held_out_data.tfrecord-0-of-1",
        "manifest.json",
        "pretrain_data.tfrecord-0-of-3",
        "pretrain_data.tfrecord-1-of-3",
        "pretrain_data.tfrecord-2-of-3",
        "unigram_counts.txt",
    ]


def test_a_failed_build_leaves_the_older_data_set(config, built, out, tmp_path):
    (tmp_path / "damaged.xz").write_bytes(b"damaged")
    corpus = (*config.corpus, str(tmp_path / "damaged.xz"))
    config = dataclasses.replace(config, corpus=corpus)
    with pytest.raises(UserError, match="damaged.xz"):
        build(config, out, overwrite=True)
    assert contents(out) == contents(built)


@pytest.mark.skipif(
    not pathlib.Path("/dev/full").exists(), reason="needs /dev/full"
)
def test_a_full_disk_keeps_the_finished_shards(
    config, built, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    out.mkdir()
    (out / ".pretrain_data.tfrecord-0.tmp").symlink_to("/dev/full")
    with monkeypatch.context() as patch:
        patch.setattr(dataset_builder, "_remove_stale_shards", lambda *_: None)
        with pytest.raises(UserError, match="(?i)no space.*to resume"):
            build(config, out)
    assert [path.name for path in out.iterdir()] == [".parts"]
    monkeypatch.setattr(shards, "build", None)  # all shards exist
    build(config, out)
    assert contents(out) == contents(built)


@pytest.mark.parametrize("change", ["text", "setting", "vocabulary"])
def test_shards_of_other_text_settings_or_vocabulary_are_not_used(
    config, tmp_path, monkeypatch, small_shards, change
):
    corpus = pathlib.Path(config.corpus[0]).parent
    shutil.copytree(corpus, tmp_path / "corpus")
    config = dataclasses.replace(config, corpus=(f"{tmp_path}/corpus",))
    vocabulary, out = VOCABULARY, tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(dataset_builder, "merge", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build(config, out)
    assert len(list((out / ".parts").iterdir())) > 2
    if change == "text":
        with open(tmp_path / "corpus" / "a.txt", "a") as file:
            file.write("\nmore")
    elif change == "setting":
        config = dataclasses.replace(config, data_seed=1)
    else:
        vocabulary = Vocabulary((*VOCABULARY.tokens, "new"))
    build(config, tmp_path / "fresh", vocabulary)
    build(config, out, vocabulary)
    assert contents(out) == contents(tmp_path / "fresh")


def test_text_without_tokens_is_an_error(config, tmp_path):
    (tmp_path / "marks.txt").write_text("\u200d\n\n\u200d\u200d\n")
    config = dataclasses.replace(config, corpus=(str(tmp_path / "marks.txt"),))
    with pytest.raises(UserError, match="at least one record"):
        build(config, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the original's records")
@pytest.mark.parametrize(
    "name", ["seq128", "seq64_noblank", "seq32_cased_noaccentstrip", "seq512"]
)
def test_original_packing_reproduces_the_records_of_the_original(
    tmp_path, name
):
    meta = json.loads((GOLDEN / "meta.json").read_text())[name]
    config = CorpusConfig(
        corpus=(str(GOLDEN / "text200.txt"),),
        packing="original",
        held_out_fraction=0.0,
        num_shards=meta["num_out_files"],
        data_seed=meta["seed"],
        max_seq_length=meta["max_seq_length"],
        blanks_separate_docs=meta["blanks_separate_docs"],
        do_lower_case=meta["do_lower_case"],
        strip_accents=meta["strip_accents"],
    )
    vocabulary = Vocabulary.from_file(str(golden_arrays.VOCAB_FILE))
    manifest = build(config, tmp_path, vocabulary)
    assert manifest["counts"]["tokens_dropped"] > 0
    for shard in range(meta["num_out_files"]):
        file_name = f"pretrain_data.tfrecord-{shard}-of-3"
        ours, theirs = (
            [
                tf.train.Example.FromString(record.numpy())
                for record in tf.data.TFRecordDataset(
                    str(directory / file_name)
                )
            ]
            for directory in (tmp_path, GOLDEN / name)
        )
        assert ours == theirs
