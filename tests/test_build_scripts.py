"""The commands that turn text into a vocabulary and records."""

import json

import pytest
from corpora import tar, write

from electra_tf.build_openwebtext_pretraining_dataset import OpenWebTextConfig
from electra_tf.build_openwebtext_pretraining_dataset import (
    main as build_openwebtext,
)
from electra_tf.build_pretraining_dataset import BuildConfig
from electra_tf.build_pretraining_dataset import main as build_records
from electra_tf.build_vocab import VocabConfig
from electra_tf.build_vocab import main as build_vocab
from electra_tf.config.corpus import CorpusConfig
from electra_tf.util.flags import parse_flags


@pytest.mark.parametrize(
    "engine", ["local", pytest.param("beam", marks=pytest.mark.extras)]
)
def test_text_becomes_a_vocabulary_and_records(tmp_path, engine):
    """What is built from a directory may lie in it."""
    text = "It was the best of times, it was the worst of times.\n"
    lines = (f"{text}Chapter {i} ends." for i in range(50))
    (tmp_path / "corpus.txt").write_text("\n".join(lines))
    corpus = CorpusConfig(
        corpus=(str(tmp_path),),
        vocab_file=str(tmp_path / "vocab.txt"),
        vocab_size=80,
        max_seq_length=16,
    )
    build_vocab(VocabConfig(corpus=corpus))
    output = tmp_path / "records"
    config = BuildConfig(
        corpus=corpus, output_dir=str(output), overwrite=True, engine=engine
    )
    for _ in range(2):
        build_records(config)
        manifest = json.loads((output / "manifest.json").read_text())
        counts = manifest["counts"]
        assert counts["files"] == 1
        assert counts["tokens_kept"] == counts["tokens_read"] > 0


@pytest.mark.parametrize("words", ["", "--no-strip-accents --do-lower-case"])
def test_openwebtext_is_built_as_the_original_does(tmp_path, words):
    text = "The web, page {}.\n\nIt has a title and text.\n"
    for number in range(3):
        name = f"openwebtext/urlsf_subset00-{number}_data.xz"
        pages = [(f"{number}-{i}", text.format(i).encode()) for i in range(4)]
        write(tmp_path / name, tar(pages), ".xz")
    vocabulary = "[PAD] [UNK] [CLS] [SEP] [MASK] the web page it has"
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary.split()))
    words += f" --data-dir {tmp_path} --max-seq-length 16 --num-processes 1"
    build_openwebtext(parse_flags(OpenWebTextConfig, words.split()))
    output = tmp_path / "pretrain_tfrecords"
    manifest = json.loads((output / "manifest.json").read_text())
    assert manifest["counts"]["documents"] == 12
    assert manifest["counts"]["lines"] == 24
    assert manifest["strip_accents"] == ("no-strip" not in words)


def test_the_originals_flags_are_understood():
    words = "--corpus-dir in --output-dir=out --vocab-file v --no-lower-case"
    config = parse_flags(BuildConfig, words.split())
    assert config.corpus.corpus == ("in",)
    assert config.output_dir == "out"
    assert not config.corpus.do_lower_case
