"""Beam builds the same bytes as a build on one machine."""

import dataclasses
import subprocess
import sys

import pytest
import tiny_corpus
from tiny_corpus import VOCABULARY, contents, stop_after

from electra_tf.data import beam_runner, shards
from electra_tf.data.corpus import expand
from electra_tf.util.errors import UserError


@pytest.fixture
def config(config):
    return dataclasses.replace(config, num_shards=3, drop_duplicates=True)


@pytest.fixture
def runner():
    pytest.importorskip("apache_beam")
    return beam_runner.BeamRunner("DirectRunner")


def build(config, output_dir, **kwargs):
    tiny_corpus.build(config, output_dir, **kwargs)
    return contents(output_dir)


def test_missing_beam_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(UserError, match=r"pip install -e '.\[beam\]'"):
        beam_runner.BeamRunner("DirectRunner")


@pytest.mark.beam
@pytest.mark.parametrize(
    "settings",
    [
        {"num_shards": 7},
        {"drop_duplicates": False, "length_buckets": (8,), "num_shards": 200},
    ],
)
def test_beam_builds_the_same_bytes(
    runner, config, tmp_path, small_shards, settings
):
    config = dataclasses.replace(config, **settings)
    found = build(config, tmp_path / "beam", runner=runner)
    assert found == build(config, tmp_path / "local")
    assert sum("pretrain_data" in name for name in found) > 5


@pytest.mark.beam
@pytest.mark.parametrize(
    ("step", "suffix"), [("write_hashes", ".hashes"), ("build", "")]
)
def test_a_stopped_build_resumes_to_the_same_bytes(
    runner, config, tmp_path, monkeypatch, small_shards, step, suffix
):
    expected, out = build(config, tmp_path / "local"), tmp_path / "out"
    with monkeypatch.context() as patch:
        stopping = stop_after(getattr(shards, step), 2, OSError)
        patch.setattr(shards, step, stopping)
        with pytest.raises(Exception, match="stopped"):
            build(config, out, runner=runner)
    suffixes = [path.suffix for path in (out / ".parts").iterdir()]
    assert suffixes.count(suffix) == 2
    num_shards = len(shards.plan(expand(config.corpus), config, VOCABULARY, ""))
    # One more shard than are missing would raise an error.
    rest = stop_after(getattr(shards, step), num_shards - 2, OSError)
    monkeypatch.setattr(shards, step, rest)
    assert build(config, out, runner=runner) == expected


@pytest.mark.beam
@pytest.mark.parametrize("drop_duplicates", [True, False])
def test_a_damaged_file_is_named(runner, config, tmp_path, drop_duplicates):
    (tmp_path / "c.txt").write_bytes(b"w1")
    (tmp_path / "d.xz").write_bytes(b"damaged")
    config = dataclasses.replace(
        config,
        corpus=(*config.corpus, str(tmp_path / "d.xz")),
        drop_duplicates=drop_duplicates,
    )
    with pytest.raises(UserError, match=r"readable. Received: .*d\.xz"):
        build(config, tmp_path / "out", runner=runner)


@pytest.mark.beam
def test_the_command_builds_with_options_of_a_runner(runner, config, tmp_path):
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
    completed = subprocess.run(command + flags, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    assert "80 documents" in completed.stdout


@pytest.mark.beam
@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("DataflowRunner", ["--region=r"], "--region=r: .*project"),
        ("DirectRunner", ["project=p"], "runner: DirectRunner,project=p"),
    ],
)
def test_what_beam_does_not_accept_is_named(
    config, tmp_path, name, options, problem
):
    pytest.importorskip("apache_beam")
    runner = beam_runner.BeamRunner(name, options)
    with pytest.raises(UserError, match=f"(?s){problem}.* Correct --runner"):
        build(config, tmp_path, runner=runner)


def test_an_option_with_a_comma_stays_one_option(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", object())
    options = beam_runner.BeamRunner("R", ("--a=1", "2", "--b")).options
    assert options == ["--runner=R", "--a=1,2", "--b"]
