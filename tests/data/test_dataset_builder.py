"""A data set holds the text once, is the same every time, or is not there."""

import collections
import dataclasses
import json
import pathlib
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.configure_pretraining import CorpusConfig
from electra_tf.data import (
    dataset_builder,
    held_out,
    merge,
    packing,
    record_format,
    shards,
    unigram_counts,
)
from electra_tf.data.dataset_builder import build
from electra_tf.data.engines import LocalEngine
from electra_tf.data.records import Records
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

SHARED = pathlib.Path(__file__).parents[3] / "shared"
GOLDEN = SHARED / "golden" / "data"
LENGTH = 32
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = [f"w{i}" for i in range(500)]
VOCABULARY = Vocabulary((*SPECIAL, *WORDS))


def make_documents(number):
    rng = random.Random(number)
    return [
        [" ".join(rng.choices(WORDS, k=rng.randint(1, 40))) for _ in range(9)]
        for _ in range(number)
    ]


DOCUMENTS = make_documents(40)


def split_documents(documents, *, held_out_fraction, seed):
    """Splits a corpus of one part."""
    splitter = held_out.Splitter(held_out_fraction, seed)
    yield from splitter.assign(documents)
    yield from held_out.decide(splitter.waiting, splitter.splits)


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n\n".join(map("\n".join, DOCUMENTS)))
    return CorpusConfig(
        corpus=(str(path),), max_seq_length=LENGTH, held_out_fraction=0.1
    )


@pytest.fixture(scope="module")
def built(config, tmp_path_factory):
    """The data set of `config`; tests leave it as it is."""
    directory = tmp_path_factory.mktemp("built")
    build(config, VOCABULARY, output_dir=str(directory))
    return directory


@pytest.fixture
def out(built, tmp_path):
    """A copy of it."""
    return shutil.copytree(built, tmp_path / "out")


def reports_of_text(reports):
    """Leaves out those of the records that are dealt out."""
    return [report for report in reports if not report.total_records]


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def read(directory, split, max_seq_length=LENGTH):
    """Returns the ids of the records of a split, in the order of writing."""
    prefix = record_format.PREFIXES[split]
    paths = sorted(
        pathlib.Path(directory).glob(f"{prefix}.tfrecord-*"),
        key=lambda path: int(path.name.split("-")[1]),
    )
    shards = []
    for path in paths:
        records = list(tf.data.TFRecordDataset(str(path)))
        parsed = record_format.parse(tf.stack(records), max_seq_length)
        rows = parsed["input_ids"].numpy()
        keep = parsed["input_mask"].numpy().astype(bool)
        shards.append([r[k].tolist() for r, k in zip(rows, keep, strict=True)])
    longest = max(map(len, shards), default=0)
    return [
        shard[i] for i in range(longest) for shard in shards if i < len(shard)
    ]


def count_words(rows):
    counts = collections.Counter(i for row in rows for i in row)
    for special in (VOCABULARY.cls_id, VOCABULARY.sep_id):
        del counts[special]
    return counts


def words_of(documents):
    text = " ".join(line for document in documents for line in document)
    return collections.Counter(
        VOCABULARY.tokens.index(word) for word in text.split()
    )


def test_every_token_of_the_corpus_is_in_one_record(built):
    train, held_out = read(built, "train"), read(built, "held_out")
    assert count_words(train + held_out) == words_of(DOCUMENTS)
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


def test_counts_are_those_of_the_training_records(config, built):
    records = Records.open(f"{built}/pretrain_data*", config, VOCABULARY)
    counts = unigram_counts.read(records, VOCABULARY)
    found = count_words(read(built, "train"))
    assert len(counts) == VOCABULARY.size
    assert {i: n for i, n in enumerate(counts) if n} == dict(found)
    manifest = json.loads((built / "manifest.json").read_text())
    assert manifest["counts"]["train_tokens"] == sum(counts)


def test_counts_of_several_data_sets_add_up(config, built, out):
    pattern = f"{built}/pretrain_data*,{out}/pretrain_data*"
    both = Records.open(pattern, config, VOCABULARY)
    one = Records.open(f"{built}/pretrain_data*", config, VOCABULARY)
    assert unigram_counts.read(both, VOCABULARY) == tuple(
        2 * n for n in unigram_counts.read(one, VOCABULARY)
    )


@pytest.mark.parametrize("damage", ["lines", "numbers", "words"])
def test_counts_of_another_data_set_are_refused(config, out, damage):
    path = out / "unigram_counts.txt"
    text = path.read_text()
    other = {
        "lines": text + "0\n",
        "numbers": text[:-2] + "1\n" if text[-2] == "0" else text[:-2] + "0\n",
        "words": text.replace("0\n", "none\n"),
    }
    path.write_text(other[damage])
    records = Records.open(f"{out}/pretrain_data*", config, VOCABULARY)
    with pytest.raises(UserError, match="--overwrite"):
        unigram_counts.read(records, VOCABULARY)


def test_the_data_set_opens(config, built):
    train = Records.open(f"{built}/pretrain_data*", config, VOCABULARY)
    held_out = Records.open(f"{built}/held_out*", config, VOCABULARY)
    assert train.num_records == len(read(built, "train"))
    assert held_out.num_records == len(read(built, "held_out"))


def test_the_split_keeps_documents_whole(config, built):
    held_out = [
        document.lines
        for document in split_documents(
            DOCUMENTS, held_out_fraction=0.1, seed=config.data_seed
        )
        if document.split == "held_out"
    ]
    assert count_words(read(built, "held_out")) == words_of(held_out)
    counts = json.loads((built / "manifest.json").read_text())["counts"]
    assert counts["held_out_documents"] == len(held_out)


def test_records_do_not_depend_on_files_batches_or_threads(
    config, built, tmp_path, monkeypatch
):
    monkeypatch.setattr(packing, "BATCH_CHARACTERS", 500)
    monkeypatch.setattr(packing, "MAX_THREADS", 1)
    several = tmp_path / "several"
    several.mkdir()
    for i, document in enumerate(reversed(DOCUMENTS)):
        (several / f"{i}.txt").write_text("\n".join(document))
    config = dataclasses.replace(config, corpus=(str(several),), num_shards=3)
    build(config, VOCABULARY, output_dir=str(tmp_path / "out"))
    for split in ("train", "held_out"):
        ours = sorted(read(tmp_path / "out", split))
        assert ours == sorted(read(built, split))
    ours, theirs = (
        (directory / "unigram_counts.txt").read_bytes()
        for directory in (tmp_path / "out", built)
    )
    assert ours == theirs


def test_the_same_build_gives_the_same_bytes(config, built, tmp_path):
    calls = []
    manifest = build(
        config,
        VOCABULARY,
        output_dir=str(tmp_path / "out"),
        report=calls.append,
    )
    assert contents(tmp_path / "out") == contents(built)
    assert manifest == json.loads((built / "manifest.json").read_text())
    size = pathlib.Path(config.corpus[0]).stat().st_size
    of_text = reports_of_text(calls)
    assert of_text[-1][:5] == (len(DOCUMENTS), size, size, 0, False)
    assert of_text == sorted(of_text)
    num_records = manifest["counts"]["records"]
    assert calls[-1][5:] == (num_records, num_records)


def test_another_seed_gives_other_records(config, built, tmp_path):
    config = dataclasses.replace(config, data_seed=1)
    build(config, VOCABULARY, output_dir=str(tmp_path))
    assert read(tmp_path, "train") != read(built, "train")


def test_equal_documents_fall_on_one_side():
    documents = [[str(i % 20)] for i in range(200)]
    splits = collections.defaultdict(set)
    for document in split_documents(documents, held_out_fraction=0.3, seed=5):
        splits[document.lines[0]].add(document.split)
    assert all(len(sides) == 1 for sides in splits.values())
    assert {side for sides in splits.values() for side in sides} == {
        "train",
        "held_out",
    }


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("number", [2, 3, 50])
@pytest.mark.parametrize("seed", range(5))
def test_one_document_at_least_is_held_out(number, copies, seed):
    documents = [[str(i)] for i in range(number)] * copies
    found = list(split_documents(documents, held_out_fraction=1e-9, seed=seed))
    assert sorted(d.lines for d in found) == sorted(documents)
    held_out = [d.lines for d in found if d.split == "held_out"]
    assert len(held_out) == copies
    assert held_out == held_out[:1] * copies


@pytest.mark.parametrize(
    ("documents", "fraction"), [([["a"], ["a"]], 0.01), ([["a"], ["b"]], 0.0)]
)
def test_nothing_is_held_out_of_one_document_or_for_none(documents, fraction):
    found = split_documents(documents, held_out_fraction=fraction, seed=0)
    assert [document.split for document in found] == ["train", "train"]


def test_the_share_held_out_is_the_fraction():
    documents = [[str(i)] for i in range(5000)]
    found = split_documents(documents, held_out_fraction=0.05, seed=0)
    share = np.mean([document.split == "held_out" for document in found])
    assert share == pytest.approx(0.05, abs=0.01)


def test_large_corpora_get_several_shards(config, tmp_path, monkeypatch):
    monkeypatch.setattr(merge, "SHARD_BYTES", 10_000)
    manifest = build(config, VOCABULARY, output_dir=str(tmp_path / "out"))
    train = [f for f in manifest["files"] if f["split"] == "train"]
    sizes = [file["num_bytes"] for file in train]
    assert len(train) > 2
    assert max(sizes) < 20_000
    counts = [file["num_records"] for file in train]
    assert max(counts) - min(counts) <= 1


def test_a_data_set_is_not_overwritten_unasked(config, built, out):
    with pytest.raises(UserError, match="--overwrite"):
        build(config, VOCABULARY, output_dir=str(out))
    assert contents(out) == contents(built)
    (out / "manifest.json").unlink()
    with pytest.raises(UserError, match="--overwrite"):
        build(config, VOCABULARY, output_dir=str(out))


def test_overwriting_leaves_nothing_of_the_older_data_set(config, out):
    (out / "pretrain_data.tfrecord-7-of-9").write_text("old")
    config = dataclasses.replace(config, num_shards=3)
    build(config, VOCABULARY, output_dir=str(out), overwrite=True)
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
        build(config, VOCABULARY, output_dir=str(out), overwrite=True)
    assert contents(out) == contents(built)


@pytest.mark.skipif(
    not pathlib.Path("/dev/full").exists(), reason="needs /dev/full"
)
def test_a_full_disk_leaves_what_is_built(config, built, tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / ".pretrain_data.tfrecord-0.tmp").symlink_to("/dev/full")
    with monkeypatch.context() as patch:
        patch.setattr(dataset_builder, "_remove_strangers", lambda *_: None)
        with pytest.raises(UserError, match="(?i)no space.*goes on"):
            build(config, VOCABULARY, output_dir=str(out))
    assert [path.name for path in out.iterdir()] == [".parts"]
    goes_on(config, built, out, monkeypatch)


def test_a_failure_while_publishing_leaves_what_is_built(
    config, built, tmp_path, monkeypatch
):
    def fail(path, *_):
        raise OSError("the disk is gone")

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(merge.ShardWriter, "publish", fail)
        with pytest.raises(UserError, match="the disk is gone"):
            build(config, VOCABULARY, output_dir=str(out))
    assert [path.name for path in out.iterdir()] == [".parts"]
    goes_on(config, built, out, monkeypatch)


def goes_on(config, built, out, monkeypatch):
    """Builds the rest of a data set, with all parts there."""
    monkeypatch.setattr(shards, "build", None)
    build(config, VOCABULARY, output_dir=str(out))
    assert contents(out) == contents(built)


def test_a_stopped_build_goes_on_and_tells_what_was_there(
    config, tmp_path, monkeypatch
):
    monkeypatch.setattr(shards, "PART_BYTES", 10_000)
    whole, out, calls = tmp_path / "whole", tmp_path / "out", []
    build(config, VOCABULARY, output_dir=str(whole), report=calls.append)
    built_parts, original = [], shards.build

    def stop_at_third(part, *args, **kwargs):
        if len(built_parts) == 2:
            raise KeyboardInterrupt
        built_parts.append(part)
        return original(part, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(shards, "build", stop_at_third)
        with pytest.raises(KeyboardInterrupt):
            build(config, VOCABULARY, output_dir=str(out))
    resumed = []
    build(config, VOCABULARY, output_dir=str(out), report=resumed.append)
    assert contents(out) == contents(whole)
    assert 0 < resumed[0].bytes_before == resumed[0].num_bytes
    assert resumed[1].bytes_before < resumed[1].num_bytes
    ends = [reports_of_text(reports)[-1] for reports in (calls, resumed)]
    assert ends[0][:3] == ends[1][:3]


@pytest.mark.parametrize("change", ["text", "setting", "vocabulary"])
def test_parts_of_something_else_are_not_used(
    config, tmp_path, monkeypatch, change
):
    monkeypatch.setattr(shards, "PART_BYTES", 10_000)
    path = shutil.copy(config.corpus[0], tmp_path)
    config = dataclasses.replace(config, corpus=(path,))
    vocabulary, out = VOCABULARY, str(tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(dataset_builder, "assemble", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build(config, vocabulary, output_dir=out)
    left = set((tmp_path / "out" / ".parts").iterdir())
    assert len(left) > 2
    if change == "text":
        with open(path, "a") as file:
            file.write("\nmore")
    elif change == "setting":
        config = dataclasses.replace(config, data_seed=1)
    else:
        vocabulary = Vocabulary((*VOCABULARY.tokens, "new"))
    fresh = str(tmp_path / "fresh")
    build(config, vocabulary, output_dir=fresh)
    build(config, vocabulary, output_dir=out)
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


def test_one_and_two_processes_write_the_same_bytes(
    config, tmp_path, monkeypatch
):
    monkeypatch.setattr(shards, "PART_BYTES", 10_000)
    config = dataclasses.replace(
        config, held_out_fraction=1e-9, packing="packed"
    )
    ends = []
    for number in (1, 2):
        calls = []
        build(
            config,
            VOCABULARY,
            output_dir=str(tmp_path / str(number)),
            engine=LocalEngine(number),
            report=calls.append,
        )
        of_text = reports_of_text(calls)
        assert of_text == sorted(of_text)
        ends.append((of_text[-1], calls[-1]))
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    assert ends[0] == ends[1]
    manifest = json.loads((tmp_path / "2" / "manifest.json").read_text())
    assert manifest["counts"]["held_out_documents"] == 1


def test_the_parts_of_a_corpus_hold_the_same_records(
    config, built, tmp_path, monkeypatch
):
    monkeypatch.setattr(shards, "PART_BYTES", 10_000)
    build(config, VOCABULARY, output_dir=str(tmp_path))
    for split in ("train", "held_out"):
        assert sorted(read(tmp_path, split)) == sorted(read(built, split))


def test_text_without_tokens_is_an_error(config, tmp_path):
    (tmp_path / "marks.txt").write_text("\u200d\n\n\u200d\u200d\n")
    config = dataclasses.replace(config, corpus=(str(tmp_path / "marks.txt"),))
    with pytest.raises(UserError, match="at least one record"):
        build(config, VOCABULARY, output_dir=str(tmp_path / "out"))
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the original's records")
@pytest.mark.parametrize(
    "name",
    ["seq128", "seq64_noblank", "seq32_cased_noaccentstrip", "seq512"],
)
def test_the_originals_packing_builds_the_originals_files(tmp_path, name):
    meta = json.loads((GOLDEN / "meta.json").read_text())[name]
    vocab_file = SHARED / "data" / "vocab" / "bert-base-uncased-vocab.txt"
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
    vocabulary = Vocabulary.from_file(str(vocab_file))
    manifest = build(config, vocabulary, output_dir=str(tmp_path))
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
