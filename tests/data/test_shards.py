"""Shards have a bounded size, except for the original's packing."""

import dataclasses

import pytest
from tiny_corpus import VOCABULARY

from electra_tf.data import corpus, shards
from electra_tf.data.corpus import expand
from electra_tf.data.summaries import Summary


@pytest.mark.parametrize(
    ("packing", "num_shards", "num_pieces"),
    [("original", 1, 1), ("carry", 3, 2)],
)
def test_only_text_of_the_original_packing_stays_in_one_piece(
    config, tmp_path, monkeypatch, packing, num_shards, num_pieces
):
    long = "word " * 200
    (tmp_path / "a.txt").write_text(f"{long}\n{long}\n\nshort\n\n" * 2)
    config = dataclasses.replace(
        config, corpus=(str(tmp_path / "a.txt"),), packing=packing
    )
    monkeypatch.setattr(shards, "SHARD_BYTES", 1000)
    monkeypatch.setattr(corpus, "MAX_DOCUMENT_CHARACTERS", 1500)
    planned = shards.plan(expand(config.corpus), config, VOCABULARY, "out")
    assert len(planned) == num_shards
    statistics = corpus.Statistics()
    first, *_ = shards._read(planned[0], config, statistics)
    assert len(first) == 2 // num_pieces


def test_small_files_share_a_shard_up_to_its_size(
    config, tmp_path, monkeypatch
):
    monkeypatch.setattr(shards, "SHARD_BYTES", 1000)
    for name, size in (("a", 600), ("b", 400), ("c", 600), ("d", 401)):
        (tmp_path / name).write_text("x" * size)
    sources = expand([str(tmp_path)])
    planned = shards.plan(sources, config, VOCABULARY, "out")
    sizes = [shard.num_text_bytes for shard in planned]
    assert sizes == [1000, 600, 401]


@pytest.mark.parametrize(
    ("fraction", "splits", "num_undecided"),
    [(0.3, {"train", "held_out"}, 0), (1e-9, {"train"}, 1)],
)
def test_a_summary_says_which_splits_have_documents(
    config, tmp_path, fraction, splits, num_undecided
):
    config = dataclasses.replace(config, held_out_fraction=fraction)
    sources = expand(config.corpus)
    (shard,) = shards.plan(sources, config, VOCABULARY, str(tmp_path))
    shards.build(shard, config, VOCABULARY, report=lambda _: None)
    summary = Summary.read(shard.summary_path)
    assert summary.splits == splits
    assert len({d.key for d in summary.undecided}) == num_undecided
