"""The first of equal documents stays, in whatever buckets they are compared."""

import dataclasses
import random

import pytest

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus, dataset_builder, deduplication, shards
from electra_tf.data.engines import LocalEngine
from electra_tf.data.records import Records
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.pretrain.pretrain_data import evaluation_dataset

WORDS = [f"w{i}" for i in range(60)]
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS))


def equal(one, other, *, do_lower_case=True):
    return deduplication.document_hash(
        one, do_lower_case=do_lower_case
    ) == deduplication.document_hash(other, do_lower_case=do_lower_case)


def test_white_space_and_unseen_case_make_no_difference():
    assert equal(["one  two", "three"], ["one", "two\tthree"])
    assert equal(["caf\u00e9"], ["cafe\u0301"])
    assert equal(["One"], ["one"])
    assert not equal(["One"], ["one"], do_lower_case=False)
    assert not equal(["one two"], ["onetwo"])
    assert not equal(["one"], ["one one"])


@pytest.mark.parametrize("bucket", [3, 50, 10**6])
def test_all_but_the_first_are_found(tmp_path, monkeypatch, bucket):
    monkeypatch.setattr(deduplication, "BUCKET_DOCUMENTS", bucket)
    rng = random.Random(bucket)
    kinds = [rng.randbytes(16) for _ in range(40)]
    kinds += [kinds[0][:8] + bytes(8), bytes(8) + kinds[0][8:]]
    kinds += [bytes(16), b"\xff" * 16]
    halves = [(1, 3), (2, 3), (2, 4)]  # neighbours that are half the same
    kinds += [bytes([*bytes(7), *pair, *bytes(7)]) for pair in halves]
    texts = [rng.choices(kinds, k=n) for n in (30, 0, 1, 25)]
    texts.append(rng.sample(kinds, len(kinds)))
    paths = [str(tmp_path / str(i)) for i in range(len(texts))]
    for path, hashes in zip(paths, texts, strict=True):
        deduplication.write(path, hashes)
        assert deduplication.count(path) == len(hashes)
    seen, kept = set(), []
    for hashes in texts:
        kept.append([])
        for number, each in enumerate(hashes):
            kept[-1] += [str(number)] if each not in seen else []
            seen.add(each)
    for dropped, hashes, expected in zip(
        deduplication.find(paths), texts, kept, strict=True
    ):
        statistics = corpus.Statistics()
        lines = [[str(i)] for i in range(len(hashes))]
        found = deduplication.leave_out(lines, dropped, statistics)
        assert [document[0] for document in found] == expected
        assert statistics.duplicate_documents == len(hashes) - len(expected)


@pytest.fixture
def config(tmp_path):
    """A corpus of two files with copies in each and across."""
    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS, k=9)) for _ in range(80)]
    copies = [rng.choice(texts).upper().replace(" ", "\n") for _ in range(60)]
    mixed = rng.sample(texts + copies, 140)
    (tmp_path / "a.txt").write_text("\n\n".join(mixed[:70]))
    (tmp_path / "b.txt").write_text("\n\n".join(mixed[70:]))
    words = [tuple(text.lower().split()) for text in mixed]
    distinct = dict(zip(words[::-1], mixed[::-1], strict=True))
    first = sorted(distinct.values(), key=mixed.index)
    (tmp_path / "distinct").mkdir()
    (tmp_path / "distinct" / "c.txt").write_text("\n\n".join(first))
    return CorpusConfig(
        corpus=(str(tmp_path / "*.txt"),),
        max_seq_length=16,
        held_out_fraction=0.1,
        drop_duplicates=True,
    )


def build(config, output_dir, **kwargs):
    """Builds a data set; returns its manifest and shards."""
    manifest = dataset_builder.build(
        config, VOCABULARY, output_dir=str(output_dir), **kwargs
    )
    assert not (output_dir / ".parts").exists()
    paths = sorted(output_dir.iterdir())
    return manifest, {path.name: path.read_bytes() for path in paths}


def rows(output_dir, config):
    records = Records.open(f"{output_dir}/*tfrecord*", config, VOCABULARY)
    batches = evaluation_dataset(records, batch_size=1)
    return sorted(tuple(inputs.input_ids[0].numpy()) for inputs in batches)


def test_the_records_are_those_of_the_distinct_documents(config, tmp_path):
    manifest, _ = build(config, tmp_path / "out")
    plain = dataclasses.replace(
        config, corpus=(str(tmp_path / "distinct"),), drop_duplicates=False
    )
    expected, _ = build(plain, tmp_path / "expected")
    assert rows(tmp_path / "out", config) == rows(tmp_path / "expected", plain)
    counts, wanted = manifest["counts"], expected["counts"]
    assert manifest["drop_duplicates"] is True
    assert counts["documents"] == 140
    assert counts["duplicate_documents"] == 140 - wanted["documents"] == 60
    assert counts["tokens_read"] == wanted["tokens_read"] == 9 * 80
    num_bytes = sum(len(text) + 1 for text in WORDS) / len(WORDS) * 9 * 60
    assert counts["duplicate_bytes"] == pytest.approx(num_bytes, rel=0.05)
    lengths = manifest["document_tokens"]
    assert lengths == expected["document_tokens"]
    assert lengths["train"]["documents"] == 80 - counts["held_out_documents"]
    assert lengths["held_out"]["histogram"] == {
        "8": counts["held_out_documents"]
    }
    assert lengths["train"]["mean"] == 9


def test_processes_and_stops_make_no_difference(config, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "PART_BYTES", 900)
    calls = []
    whole = build(config, tmp_path / "whole", report=calls.append)
    searches = [call.is_search for call in calls]
    assert searches == sorted(searches, reverse=True)
    assert len({*searches}) == 2
    assert build(config, tmp_path / "two", engine=LocalEngine(2)) == whole

    def stop(step, limit):
        done = []

        def stopping(part, *args, **kwargs):
            if len(done) == limit:
                raise KeyboardInterrupt
            done.append(part)
            return step(part, *args, **kwargs)

        return stopping

    out = tmp_path / "out"
    for name in ("write_hashes", "build"):
        with monkeypatch.context() as patch:
            patch.setattr(shards, name, stop(getattr(shards, name), 2))
            with pytest.raises(KeyboardInterrupt):
                dataset_builder.build(config, VOCABULARY, output_dir=str(out))
    left = [path.suffix for path in (out / ".parts").iterdir()]
    assert left.count("") == 2
    assert left.count(".hashes") > 2
    with monkeypatch.context() as patch:
        patch.setattr(shards, "write_hashes", None)
        assert build(config, out) == whole


def test_another_text_drops_others(config, tmp_path):
    build(config, tmp_path / "first")
    with (tmp_path / "a.txt").open("a") as file:
        file.write("\n\nw1 w2 w3\n\nW1 W2\nw3\n\nw4")
    manifest, _ = build(config, tmp_path / "second")
    assert manifest["counts"]["duplicate_documents"] == 61
