"""The two commands that turn text into a vocabulary and records."""

import json
import subprocess
import sys

import pytest

from electra_tf.build_pretraining_dataset import BuildConfig
from electra_tf.build_pretraining_dataset import main as build_records
from electra_tf.build_vocab import VocabConfig
from electra_tf.build_vocab import main as build_vocab
from electra_tf.configure_pretraining import CorpusConfig
from electra_tf.util.errors import UserError


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
    said = capsys.readouterr().out
    assert f"{counts['records']} records of 16 tokens" in said
    assert f"{counts['tokens_kept']:,} kept, 0 dropped" in said
    assert "MB/s" in said


def test_a_missing_file_name_is_named(corpus):
    with pytest.raises(UserError, match="output_dir=''"):
        BuildConfig(corpus=corpus)
    with pytest.raises(UserError, match="vocab_file=''"):
        BuildConfig(output_dir="out")
    with pytest.raises(UserError, match="--vocab_file"):
        VocabConfig()


@pytest.mark.parametrize("module", ["build_pretraining_dataset", "build_vocab"])
def test_help_needs_no_tensorflow(module):
    code = (
        f"import sys, electra_tf.{module}; "
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_command_line_reports_bad_input_in_one_line(tmp_path):
    command = [sys.executable, "-m", "electra_tf.build_vocab"]
    flags = [f"--vocab_file={tmp_path / 'v.txt'}", "--corpus=nowhere*"]
    ended = subprocess.run(command + flags, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "nowhere*" in ended.stderr
    assert "Traceback" not in ended.stderr
