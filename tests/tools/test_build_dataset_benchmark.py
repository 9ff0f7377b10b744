"""The benchmark of building data sets: its measurements and samples."""

import importlib
import itertools
import json
import os
import pathlib
import tracemalloc

import pytest

from electra_tf.model.tokenization import SPECIAL_TOKENS
from electra_tf.util import config_flags
from electra_tf.util.errors import UserError

TOOL = pathlib.Path(__file__).parents[2] / "tools/benchmarks/build_dataset.py"


@pytest.fixture(scope="module")
def tool():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOOL.parent)  # for its processes, too
        yield importlib.import_module(TOOL.stem)


@pytest.fixture
def flags(tmp_path):
    words = [f"w{i}" for i in range(40)]
    documents = [f"{word} " * 30 for word in words]
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    (tmp_path / "vocab.txt").write_text(
        "".join(f"{token}\n" for token in [*SPECIAL_TOKENS, *words])
    )
    return [
        f"--corpus={tmp_path}/text.txt",
        f"--vocab_file={tmp_path}/vocab.txt",
        "--held_out_fraction=0",
    ]


def test_measurements_alternate_in_each_round(tool, flags, monkeypatch, capsys):
    calls = []

    def in_process(function, *arguments, num_cores=0):
        calls.append((arguments, num_cores))
        return function(*arguments)

    monkeypatch.setattr(tool, "_in_process", in_process)
    names = ("build", "tokenize")
    benchmark_flags = [
        f"--measure={','.join(names)}",
        "--copies=1,3",
        "--rounds=2",
    ]
    tool.main(
        config_flags.parse(tool.BenchmarkConfig, [*flags, *benchmark_flags])
    )
    reports = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
    measurements = [(report["bytes"], report["measured"]) for report in reports]
    size = measurements[0][0]
    assert measurements == list(itertools.product([size, 3 * size], names))
    for report in reports:
        assert report["rounds"] == 2
        assert report["cores_used"] == 1
        seconds, rate = report["seconds"], report["megabytes_per_second"]
        assert 0 <= seconds["min"] <= seconds["median"] <= seconds["max"]
        megabytes = report["bytes"] / 1e6
        assert rate["max"] == pytest.approx(megabytes / seconds["min"])
        assert report["peak_memory_mib"]["min"] > 100
    assert [num_cores for _, num_cores in calls] == [0] + 8 * [1]
    kinds = [arguments[0] for arguments, _ in calls[1:]]
    assert kinds == 4 * [tool._KINDS["build"], tool._KINDS["tokenize"]]


def test_only_the_work_is_measured(tool):
    kind = tool._Kind(lambda config: lambda: None, 1)
    used = tool._measure(kind, None)
    assert 0 <= used.seconds < 1 and 0 <= used.cpu_seconds < 0.1


def test_a_sample_holds_whole_documents_of_the_corpus(tool, flags, tmp_path):
    config = config_flags.parse(tool.BenchmarkConfig, flags).corpus
    path = tmp_path / "sample.txt"
    tool._write_sample(config, 0, path)
    text = (tmp_path / "text.txt").read_text()
    assert path.read_text().split() == text.split()
    tool._write_sample(config, 1000, path)
    chosen = path.read_text().split("\n\n")[:-1]
    assert 800 < sum(len(document) + 1 for document in chosen) <= 1000
    assert {document.strip() for document in text.split("\n\n")} > set(chosen)


def test_text_is_repeated_without_being_held_in_memory(tool, tmp_path):
    """Processes inherit the peak of the one that starts them."""
    path = tmp_path / "text.txt"
    path.write_bytes(b"some text\n" * 400_000)
    tracemalloc.start()
    repeated = tool._repeat(str(path), 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert os.path.getsize(repeated) == 8_000_000
    assert peak < 1_000_000


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="needs affinities"
)
def test_a_process_of_its_own_is_pinned(tool):
    assert tool._in_process(abs, -3) == 3
    assert len(tool._in_process(os.sched_getaffinity, 0, num_cores=1)) == 1
    with pytest.raises(TypeError, match="bad operand"):
        tool._in_process(abs, "text")


def test_unknown_measurements_and_missing_flags_are_refused(tool, flags):
    with pytest.raises(UserError, match="tokenize_rust. Received: .*pack"):
        config_flags.parse(tool.BenchmarkConfig, [*flags, "--measure=pack"])
    with pytest.raises(UserError, match="`copies` must be numbers from 1"):
        config_flags.parse(tool.BenchmarkConfig, [*flags, "--copies=1,0"])
    with pytest.raises(UserError, match="`vocab_file` must be given"):
        tool.BenchmarkConfig()
