"""Processes change no byte, report their failures, and none lives on."""

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
import types

import pytest
import tiny_corpus
from tiny_corpus import (
    VOCABULARY,
    contents,
    logged_document_counts,
    stop_after,
)

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import build_log, runners, shards
from electra_tf.data.corpus import TextSource
from electra_tf.data.runners import Job, LocalRunner
from electra_tf.util import console, storage
from electra_tf.util.errors import (
    DirectoryInUseError,
    ExitCode,
    UserError,
    explain,
)
from electra_tf.util.locks import OUTPUT_LOCK, lock_directory


def build(config, tmp_path, num_processes=2, **kwargs):
    runner = LocalRunner(num_processes)
    return tiny_corpus.build(config, tmp_path / "out", runner=runner, **kwargs)


@pytest.mark.slow
def test_two_processes_name_a_damaged_file_and_write_the_bytes_of_one(
    config, tmp_path, monkeypatch, small_shards
):
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LOGS", 0)
    config = dataclasses.replace(
        config, held_out_fraction=1e-9, packing="packed"
    )
    (tmp_path / "d.xz").write_bytes(b"damaged")
    damaged = (*config.corpus, str(tmp_path / "d.xz"))
    log_lines = []
    with pytest.raises(UserError, match=r"d\.xz"):
        build(
            dataclasses.replace(config, corpus=damaged),
            tmp_path,
            log=log_lines.append,
        )
    assert logged_document_counts(log_lines) == sorted(
        logged_document_counts(log_lines)
    )
    assert {p.name for p in (tmp_path / "out").iterdir()} == {".parts"}
    assert len(list((tmp_path / "out" / ".parts").iterdir())) > 2
    manifest = build(config, tmp_path, num_processes=1, log=log_lines.append)
    tiny_corpus.build(config, tmp_path / "one", log=log_lines.append)
    assert contents(tmp_path / "out") == contents(tmp_path / "one")
    assert logged_document_counts(log_lines)[-1] == 80
    assert manifest["counts"]["held_out_documents"] == 1


def children(pid):
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return set(map(int, text.split()))


@pytest.mark.slow
def test_an_internal_error_of_a_process_comes_with_its_traceback(
    config, tmp_path, small_shards
):
    broken = dataclasses.replace(config)
    object.__setattr__(broken, "strip_accents", [])  # cannot be hashed
    with pytest.raises(RuntimeError, match="Traceback"):
        build(broken, tmp_path)


@pytest.mark.parametrize(
    ("asked", "num_shards", "number"),
    [(0, 7, 1), (0, 8, 2), (0, 99, 6), (3, 2, 2), (3, 7, 3), (1, 99, 1)],
)
def test_each_process_has_four_shards_or_more_unless_a_number_is_given(
    monkeypatch, asked, num_shards, number
):
    started = []
    monkeypatch.setattr(runners, "num_cores", lambda: 6)
    monkeypatch.setattr(
        runners, "_run_processes", lambda *given: started.append(given[2])
    )
    done_here = types.SimpleNamespace(do=lambda *_, **__: runners.Statistics())
    LocalRunner(asked).map_shards(done_here, [None] * num_shards, lambda *_: 0)
    assert started == [number] * (number > 1)


@pytest.mark.parametrize("code", [ExitCode.BAD_INPUT, ExitCode.NO_SPACE])
def test_an_error_in_a_shard_keeps_its_exit_code(monkeypatch, code):
    outcome = runners._Outcome("/out/shard is full", code)
    no_processes = contextlib.nullcontext([])
    monkeypatch.setattr(runners, "_started", lambda *_: no_processes)
    monkeypatch.setattr(runners, "_next_outcome", lambda *_: outcome)
    shard = shards.Shard((TextSource(__file__),), "shard")
    job = Job("build", CorpusConfig(), VOCABULARY)
    with pytest.raises(UserError) as error:
        runners._run_processes(job, [shard], 1, lambda *_: None)
    assert explain(error.value) == (code, "/out/shard is full")


@pytest.mark.skipif(not os.path.exists("/proc"), reason="needs /proc")
def test_ctrl_c_reaches_the_parent_alone():
    context = multiprocessing.get_context("spawn")
    shared = runners._SharedState(None, context.Queue(), None, None)
    with runners._started(context, shared, 1) as (process,):
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    blocked = int(re.search(r"SigBlk:\s*(\w+)", status)[1], 16)
    assert blocked >> signal.SIGINT - 1 & 1
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.promise(
    "kill -9 of one of the processes that build data: exit code 5 and a "
    "sentence, what is built is kept"
)
@pytest.mark.skipif(not os.path.exists("/proc"), reason="needs /proc")
def test_a_killed_process_is_reported(
    config, tmp_path, monkeypatch, small_shards
):
    with monkeypatch.context() as patch:
        patch.setattr(shards, "build", stop_after(shards.build, 1))
        with pytest.raises(KeyboardInterrupt):
            tiny_corpus.build(config, tmp_path / "out")
    (built,) = (tmp_path / "out/.parts").iterdir()
    expected = contents(built)
    assert expected
    monkeypatch.setattr(runners, "SECONDS_BETWEEN_REPORTS", 0.05)
    before = children(os.getpid())

    def kill(*_, **__):
        for pid in children(os.getpid()) - before:
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_text()
            if "spawn_main" in command:
                os.kill(pid, signal.SIGKILL)

    monkeypatch.setattr(build_log.ProgressLog, "log_text", kill)
    with pytest.raises(UserError, match="exit code -9") as error:
        build(config, tmp_path)
    assert explain(error.value)[0] == ExitCode.OUT_OF_MEMORY
    assert contents(built) == expected


_BUILD = """
import sys
from electra_tf.config.corpus import CorpusConfig
from electra_tf.data.runners import Job, LocalRunner
from electra_tf.data.shards import Shard
from electra_tf.data.corpus import TextSource
from electra_tf.model.tokenization import Vocabulary

vocab_file, *paths = sys.argv[1:]
shards = [Shard((TextSource(path),), path + ".shard") for path in paths]
job = Job("build", CorpusConfig(), Vocabulary.from_file(vocab_file))
LocalRunner(2).map_shards(job, shards, lambda *_: None)
"""


@pytest.mark.promise("kill -9 of a build: none of its processes lives on")
@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc"), reason="needs /proc")
def test_no_process_outlives_a_killed_build(tmp_path):
    (tmp_path / "a.txt").write_text("w1 w2 " * 9 + "\n\n")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY.tokens))
    fifo = tmp_path / "b.txt"
    os.mkfifo(fifo)
    paths = [tmp_path / "vocab.txt", tmp_path / "a.txt", fifo]
    build = subprocess.Popen([sys.executable, "-c", _BUILD, *map(str, paths)])
    summary = tmp_path / "a.txt.shard" / "summary.json"
    deadline = time.monotonic() + 120
    while not summary.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert summary.exists()  # one process is done, the other reads the fifo
    alive = children(build.pid)
    build.kill()
    build.wait()
    while alive and time.monotonic() < deadline:
        time.sleep(0.1)
        alive = {pid for pid in alive if os.path.exists(f"/proc/{pid}")}
    assert not alive


def test_a_second_build_is_kept_out_until_the_first_ends(config, root):
    out = f"{root}/out"
    storage.make_directories(out)
    with lock_directory(out, OUTPUT_LOCK, "wait"):
        with pytest.raises(DirectoryInUseError, match="or choose another dir"):
            tiny_corpus.build(config, out)
    tiny_corpus.build(config, out)
    assert not storage.exists(f"{out}/{OUTPUT_LOCK}")
