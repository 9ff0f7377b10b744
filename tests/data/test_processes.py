"""Failures of processes are told, and none of them outlives the build."""

import contextlib
import dataclasses
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import dataset_builder, processes, shards
from electra_tf.data.engines import LocalEngine
from electra_tf.data.sources import Source
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.util.errors import (
    DirectoryInUseError,
    ExitCode,
    UserError,
    explain,
)

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "word", "##s"))


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "PART_BYTES", 1000)
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("words word\n\nword\n\n" * 40)
    return CorpusConfig(corpus=(str(tmp_path / "*.txt"),), max_seq_length=8)


def build(config, tmp_path, **kwargs):
    return dataset_builder.build(
        config,
        VOCABULARY,
        output_dir=str(tmp_path / "out"),
        **{"engine": LocalEngine(2), **kwargs},
    )


def children():
    path = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
    with open(path) as file:
        return set(map(int, file.read().split()))


def test_a_damaged_file_is_named_and_what_is_built_is_kept(config, tmp_path):
    (tmp_path / "d.xz").write_bytes(b"damaged")
    corpus = (*config.corpus, str(tmp_path / "d.xz"))
    with pytest.raises(UserError, match=r"d\.xz"):
        build(dataclasses.replace(config, corpus=corpus), tmp_path)
    assert {p.name for p in (tmp_path / "out").iterdir()} <= {".parts"}
    manifest = build(config, tmp_path, engine=LocalEngine(1))
    assert manifest["counts"]["documents"] == 240


@pytest.mark.slow
def test_a_fault_of_ours_comes_with_its_traceback(config, tmp_path):
    broken = dataclasses.replace(config)
    object.__setattr__(broken, "strip_accents", [])  # cannot be hashed
    with pytest.raises(RuntimeError, match="Traceback"):
        build(broken, tmp_path)


@pytest.mark.parametrize("code", [ExitCode.BAD_INPUT, ExitCode.NO_SPACE])
def test_the_exit_code_is_that_of_what_ended_a_part(monkeypatch, code):
    outcome = processes._Outcome("/out/part is full", code)
    nobody = contextlib.nullcontext([])
    monkeypatch.setattr(processes, "_started", lambda *_: nobody)
    monkeypatch.setattr(processes, "_next_outcome", lambda *_: outcome)
    part = shards.Part((Source(__file__),), "part")
    job = processes.Job("build", CorpusConfig(), VOCABULARY)
    with pytest.raises(UserError) as error:
        processes.run(job, [part], 1, lambda *_: None)
    assert explain(error.value) == (code, "/out/part is full")


@pytest.mark.skipif(not os.path.exists("/proc"), reason="needs /proc")
def test_ctrl_c_reaches_the_parent_alone():
    context = multiprocessing.get_context("spawn")
    shared = processes._Shared(None, [], context.Queue(), None, None)
    with processes._started(context, shared, 1) as (process,):
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    blocked = int(re.search(r"SigBlk:\s*(\w+)", status)[1], 16)
    assert blocked >> signal.SIGINT - 1 & 1
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.skipif(not os.path.exists("/proc"), reason="needs /proc")
def test_a_killed_process_is_told(config, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "SECONDS_BETWEEN_REPORTS", 0.05)
    before = children()

    def kill(_):
        for pid in children() - before:
            with open(f"/proc/{pid}/cmdline") as file:
                if "spawn_main" in file.read():
                    os.kill(pid, signal.SIGKILL)

    with pytest.raises(UserError, match="exit code -9") as error:
        build(config, tmp_path, report=kill)
    assert explain(error.value)[0] == ExitCode.OUT_OF_MEMORY


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc"), reason="needs /proc")
def test_no_process_outlives_a_killed_build(tmp_path):
    (tmp_path / "a.txt").write_text("word words " * 9 + "\n\n")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY.tokens))
    fifo = tmp_path / "b.txt"
    os.mkfifo(fifo)
    code = (
        "import sys\n"
        "from electra_tf.config.corpus import CorpusConfig\n"
        "from electra_tf.model.tokenization import Vocabulary\n"
        "from electra_tf.data import processes, shards\n"
        "from electra_tf.data.shards import Part\n"
        "from electra_tf.data.sources import Source\n"
        "made = [Part((Source(path),), path + '.part')"
        " for path in sys.argv[2:]]\n"
        "vocabulary = Vocabulary.from_file(sys.argv[1])\n"
        "job = processes.Job('build', CorpusConfig(), vocabulary)\n"
        "processes.run(job, made, 2, lambda *_: None)\n"
    )
    paths = [tmp_path / "vocab.txt", tmp_path / "a.txt", fifo]
    build = subprocess.Popen([sys.executable, "-c", code, *map(str, paths)])
    summary = tmp_path / "a.txt.part" / "summary.json"
    deadline = time.monotonic() + 120
    while not summary.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert summary.exists()  # one process is done, the other reads the fifo
    with open(f"/proc/{build.pid}/task/{build.pid}/children") as file:
        pids = file.read().split()
    build.kill()
    build.wait()
    while (left := _alive(pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


_HANGING_BUILD = """
import sys, time
from electra_tf.config.corpus import CorpusConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.data import dataset_builder, shards

def hang(*_, **__):
    print("inside", flush=True)
    time.sleep(600)

shards.build = hang
corpus, vocab_file, output_dir = sys.argv[1:]
config = CorpusConfig(corpus=(corpus,), max_seq_length=8)
vocabulary = Vocabulary.from_file(vocab_file)
dataset_builder.build(config, vocabulary, output_dir=output_dir)
"""


def test_a_second_build_is_kept_out_until_the_first_is_killed(config, tmp_path):
    (tmp_path / "vocab").write_text("\n".join(VOCABULARY.tokens))
    arguments = [config.corpus[0], tmp_path / "vocab", tmp_path / "out"]
    first = subprocess.Popen(
        [sys.executable, "-c", _HANGING_BUILD, *map(str, arguments)],
        stdout=subprocess.PIPE,
    )
    assert first.stdout.readline() == b"inside\n"
    with pytest.raises(DirectoryInUseError, match=f"process {first.pid} on"):
        build(config, tmp_path)
    first.kill()
    first.wait()
    manifest = build(config, tmp_path, engine=LocalEngine(1))
    assert manifest["counts"]["documents"] == 240
    assert not (tmp_path / "out" / ".lock").exists()


def _alive(pids):
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
