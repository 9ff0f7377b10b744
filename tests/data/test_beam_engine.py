"""Beam builds the same bytes as the processes of one machine."""

import dataclasses
import json
import random
import subprocess
import sys

import pytest

from electra_tf.build_pretraining_dataset import BuildConfig
from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import beam_engine, dataset_builder, shards
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.util.errors import UserError

WORDS = [f"w{i}" for i in range(60)]
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS))


@pytest.fixture
def config(tmp_path):
    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS, k=9)) for _ in range(80)]
    mixed = rng.sample(texts + rng.choices(texts, k=60), 140)
    (tmp_path / "a.txt").write_text("\n\n".join(mixed[:70]))
    (tmp_path / "b.txt").write_text("\n\n".join(mixed[70:]))
    return CorpusConfig(
        corpus=(str(tmp_path / "*.txt"),),
        max_seq_length=16,
        held_out_fraction=0.1,
        num_shards=3,
        drop_duplicates=True,
    )


@pytest.fixture
def engine():
    pytest.importorskip("apache_beam")
    return beam_engine.BeamEngine("DirectRunner")


def build(config, output_dir, **kwargs):
    dataset_builder.build(
        config, VOCABULARY, output_dir=str(output_dir), **kwargs
    )
    return {path.name: path.read_bytes() for path in output_dir.iterdir()}


def test_without_beam_the_way_to_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(UserError, match=r"pip install 'electra_tf\[beam\]'"):
        beam_engine.BeamEngine("DirectRunner")


def test_options_of_beam_need_beam():
    with pytest.raises(UserError, match="--engine=beam"):
        BuildConfig(
            corpus=CorpusConfig(vocab_file="v.txt"),
            output_dir="out",
            beam_options=("--project=p",),
        )


@pytest.mark.beam
@pytest.mark.parametrize(
    "settings",
    [
        {"num_shards": 7},
        {"drop_duplicates": False, "length_buckets": (8,), "num_shards": 200},
    ],
)
def test_beam_builds_the_same_bytes(
    engine, config, tmp_path, monkeypatch, settings
):
    monkeypatch.setattr(shards, "PART_BYTES", 900)
    config = dataclasses.replace(config, **settings)
    found = build(config, tmp_path / "beam", engine=engine)
    assert found == build(config, tmp_path / "local")
    counts = json.loads(found["manifest.json"])["counts"]
    assert counts["duplicate_documents"] == 60 * config.drop_duplicates
    assert sum("pretrain_data" in name for name in found) > 5


@pytest.mark.beam
def test_a_stopped_build_goes_on(engine, config, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "PART_BYTES", 900)
    expected = build(config, tmp_path / "local")
    out, original, built = tmp_path / "out", shards.build, []

    def stop(part, *args, **kwargs):
        if len(built) == 3:
            raise OSError("the machine is gone")
        built.append(part)
        return original(part, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(shards, "build", stop)
        with pytest.raises(Exception, match="the machine is gone"):
            build(config, out, engine=engine)
    left = {path.name for path in (out / ".parts").iterdir()}
    assert len(left) == 3
    assert build(config, out, engine=engine) == expected


@pytest.mark.beam
@pytest.mark.parametrize("drop_duplicates", [True, False])
def test_a_damaged_file_is_named(engine, config, tmp_path, drop_duplicates):
    (tmp_path / "c.txt").write_bytes(b"w1")
    (tmp_path / "d.xz").write_bytes(b"damaged")
    config = dataclasses.replace(
        config,
        corpus=(*config.corpus, str(tmp_path / "d.xz")),
        drop_duplicates=drop_duplicates,
    )
    with pytest.raises(UserError, match=r"readable. Received: .*d\.xz"):
        build(config, tmp_path / "out", engine=engine)


@pytest.mark.beam
def test_the_command_builds_with_options_of_a_runner(engine, config, tmp_path):
    (tmp_path / "vocab").write_text("\n".join(VOCABULARY.tokens))
    command = [sys.executable, "-m", "electra_tf.build_pretraining_dataset"]
    flags = [
        f"--corpus={config.corpus[0]}",
        f"--vocab_file={tmp_path / 'vocab'}",
        f"--output_dir={tmp_path / 'out'}",
        "--engine=beam",
        "--beam_options=--direct_num_workers=2",
        "--beam_options=--direct_running_mode=multi_threading",
    ]
    ended = subprocess.run(command + flags, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "140 documents" in ended.stdout


def test_an_option_goes_on_after_a_comma(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", object())
    engine = beam_engine.BeamEngine("R", ("--a=1", "2", "--b"))
    assert engine.options == ["--runner=R", "--a=1,2", "--b"]
