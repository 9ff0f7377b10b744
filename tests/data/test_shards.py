"""The original's packing sees a corpus as one stream of whole documents."""

import dataclasses

import pytest
from tiny_corpus import VOCABULARY

from electra_tf.data import corpus, shards
from electra_tf.data.sources import expand


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
