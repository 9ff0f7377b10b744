"""The commands that turn text into a vocabulary and records."""

import dataclasses
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
from electra_tf.configure_pretraining import CorpusConfig
from electra_tf.util import config_flags
from electra_tf.util.errors import UserError

CORPUS = CorpusConfig(vocab_file="vocab.txt")


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    text = "It was the best of times, it was the worst of times.\n"
    path.write_text("\n".join(f"{text}Chapter {i} ends." for i in range(50)))
    return CorpusConfig(
        corpus=(str(path),),
        vocab_file=str(tmp_path / "vocab.txt"),
        vocab_size=80,
        max_seq_length=16,
    )


def test_text_becomes_a_vocabulary_and_records(corpus, tmp_path, capsys):
    build_vocab(VocabConfig(corpus=corpus))
    output_dir = tmp_path / "records"
    build_records(BuildConfig(corpus=corpus, output_dir=str(output_dir)))
    manifest = json.loads((output_dir / "manifest.json").read_text())
    counts = manifest["counts"]
    stdout = capsys.readouterr().out
    assert f"{counts['records']} records of 16 tokens" in stdout
    assert f"{counts['tokens_kept']:,} tokens kept, 0 dropped" in stdout
    assert "MB/s" in stdout


def test_what_is_built_from_a_directory_may_lie_in_it(corpus, tmp_path):
    corpus = dataclasses.replace(corpus, corpus=(str(tmp_path),))
    build_vocab(VocabConfig(corpus=corpus))
    output_dir = tmp_path / "records"
    for _ in range(2):
        build_records(
            BuildConfig(
                corpus=corpus,
                output_dir=str(output_dir),
                overwrite=True,
                num_processes=1,
            )
        )
        manifest = json.loads((output_dir / "manifest.json").read_text())
        assert manifest["counts"]["files"] == 1


@pytest.mark.parametrize(
    ("config_class", "leaves", "message"),
    [
        (BuildConfig, {"corpus": CORPUS}, "output_dir=''"),
        (BuildConfig, {"output_dir": "out"}, "vocab_file=''"),
        (
            BuildConfig,
            {"corpus": CORPUS, "output_dir": "o", "beam_options": ("--a=b",)},
            "--engine=beam",
        ),
        (
            BuildConfig,
            {"corpus": CORPUS, "output_dir": "o", "runner": "SparkRunner"},
            "runner='SparkRunner'.* --engine=beam",
        ),
        (
            BuildConfig,
            {
                "corpus": CORPUS,
                "output_dir": "o",
                "engine": "beam",
                "num_processes": 2,
            },
            "needs `engine=local`.*num_processes=2",
        ),
        (VocabConfig, {}, "--vocab_file"),
        (OpenWebTextConfig, {}, "--data_dir"),
    ],
)
def test_bad_flags_are_named(config_class, leaves, message):
    with pytest.raises(UserError, match=message):
        config_class(**leaves)


@pytest.fixture
def openwebtext(tmp_path):
    """Writes a data directory in the original's layout."""
    text = "The web, page {}.\n\nIt has a title and text.\n"
    for number in range(3):
        name = f"openwebtext/urlsf_subset00-{number}_data.xz"
        pages = [(f"{number}-{i}", text.format(i).encode()) for i in range(4)]
        write(tmp_path / name, tar(pages), ".xz")
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] the web page it has a title and"
    (tmp_path / "vocab.txt").write_text("\n".join(words.split()))
    return tmp_path


def test_openwebtext_is_built_as_the_original_does(openwebtext):
    words = f"--data-dir {openwebtext} --max-seq-length 16 --num-processes 1"
    words += " --do-lower-case --no-strip-accents"
    config = config_flags.parse(OpenWebTextConfig, words.split())
    build_openwebtext(config)
    output = openwebtext / "pretrain_tfrecords"
    manifest = json.loads((output / "manifest.json").read_text())
    assert manifest["counts"]["documents"] == 12
    assert manifest["counts"]["lines"] == 24
    assert manifest["strip_accents"] is False
    assert manifest["blanks_separate_docs"] is True
    assert sorted(path.name for path in openwebtext.iterdir()) == [
        "openwebtext",
        "pretrain_tfrecords",
        "vocab.txt",
    ]


def test_openwebtext_says_what_is_missing(openwebtext):
    config = OpenWebTextConfig(data_dir=str(openwebtext / "elsewhere"))
    with pytest.raises(UserError, match="no directory .*openwebtext"):
        build_openwebtext(config)
    (openwebtext / "vocab.txt").unlink()
    with pytest.raises(UserError, match=r"no file .*vocab\.txt"):
        build_openwebtext(OpenWebTextConfig(data_dir=str(openwebtext)))


def test_the_originals_flags_are_understood():
    words = "--corpus-dir in --output-dir=out --vocab-file v --no-lower-case"
    config = config_flags.parse(BuildConfig, words.split())
    assert config.corpus.corpus == ("in",)
    assert config.output_dir == "out"
    assert not config.corpus.do_lower_case
