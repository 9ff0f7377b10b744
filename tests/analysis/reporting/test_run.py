import dataclasses
import shutil

import pytest
import tiny_networks

from electra_tf.analysis.reporting import run as analysis_run
from electra_tf.config.analysis import AnalysisConfig


def _config(path, **values):
    defaults = {"what": "rerank", "model": str(path / "m"), "dev": ()}
    test = (str(path / "data"),)
    return AnalysisConfig(**{**defaults, "test": test, **values})


@pytest.fixture
def files(tmp_path):
    (tmp_path / "m.index").write_text("index")
    (tmp_path / "m.data-00000-of-00001").write_text("weights")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.json").write_text("a")
    return tmp_path


def test_a_fingerprint_is_of_contents_and_settings(files):
    config, facts = _config(files), {"vocabulary": "x"}
    first = analysis_run.fingerprint(config, facts)
    seen = {first}
    for change in ({"seed": 1}, {"max_examples": 3}, {"dev": config.test}):
        other = dataclasses.replace(config, **change)
        seen.add(analysis_run.fingerprint(other, facts))
    seen.add(analysis_run.fingerprint(config, {"vocabulary": "y"}))
    for name in ("m.index", "m.data-00000-of-00001", "data/a.json"):
        before = (files / name).read_text()
        (files / name).write_text(f"{before} changed")
        seen.add(analysis_run.fingerprint(config, facts))
        (files / name).write_text(before)
    (files / "data/b.json").write_text("b")
    seen.add(analysis_run.fingerprint(config, facts))
    assert len(seen) == 9
    (files / "data/b.json").unlink()
    for change in ({"batch_size": 1}, {"output_dir": str(files)}):
        other = dataclasses.replace(config, **change)
        assert analysis_run.fingerprint(other, facts) == first


def test_a_fingerprint_is_of_all_shards_of_a_checkpoint(files):
    (files / "m.data-00000-of-00001").unlink()
    for shard in ("m.data-00000-of-00002", "m.data-00001-of-00002"):
        (files / shard).write_text("weights")
    first = analysis_run.fingerprint(_config(files), {})
    (files / shard).write_text("others")
    assert analysis_run.fingerprint(_config(files), {}) != first


def test_a_fingerprint_is_of_each_checkpoint_of_a_pair(files):
    for name in ("disc", "gen"):
        (files / name).mkdir()
        (files / name / "weights").write_text("a")
    pair = f"{files / 'disc'},{files / 'gen'}"
    config = _config(files, what="prompts", twin=pair)
    seen = {analysis_run.fingerprint(config, {})}
    for name in ("disc", "gen"):
        (files / name / "weights").write_text("b")
        seen.add(analysis_run.fingerprint(config, {}))
    assert len(seen) == 3


def test_of_the_directory_of_a_twin_only_its_checkpoint_counts(tmp_path):
    network = tiny_networks.discriminator()
    for name in ("model", "twin"):
        tiny_networks.save(network, tmp_path / name)
    for variable in network.encoder.trainable_variables:
        variable.assign(2 * variable)
    tiny_networks.save(network, tmp_path / "other")
    (tmp_path / "data").write_text("a")
    config = _config(
        tmp_path,
        what="representations",
        model=str(tmp_path / "model"),
        twin=str(tmp_path / "twin"),
        dev=(str(tmp_path / "data"),),
    )

    def fingerprint(config):
        return analysis_run._metadata_of_checkpoint(config)["fingerprint"]

    first = fingerprint(config)
    (tmp_path / "twin/notes").write_text("of no effect")
    assert fingerprint(config) == first
    other = dataclasses.replace(config, twin=str(tmp_path / "other"))
    other_weights = fingerprint(other)
    assert other_weights != first
    shutil.rmtree(tmp_path / "twin")
    (tmp_path / "other").rename(tmp_path / "twin")
    assert fingerprint(config) != first


def test_a_fingerprint_is_of_all_files_that_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("dev.src", "dev.ref0", "t.txt"):
        (tmp_path / name).write_text("a")
    config = _config(tmp_path, what="errors", dev=("dev.src",), test=("t.txt",))
    seen = {analysis_run.fingerprint(config, {})}
    for name in ("dev.src", "dev.ref0", "t.txt"):
        (tmp_path / name).write_text("b")
        seen.add(analysis_run.fingerprint(config, {}))
    assert len(seen) == 4
    (tmp_path / "errors").write_text("the name of an analysis is no file")
    assert analysis_run.fingerprint(config, {}) in seen
