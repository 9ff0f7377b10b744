import pathlib
import re

import pytest

from electra_tf.util import trial_directories
from electra_tf.util.errors import UserError


def _trial(directory, *, is_done=True):
    """Makes the directory of a trial; returns that of its model."""
    model = directory / "model"
    model.mkdir(parents=True)
    (model / "task.json").write_text("{}", "utf-8")
    if is_done:
        (directory / "result.json").write_text("{}", "utf-8")
    return str(model)


@pytest.fixture
def trial(tmp_path):
    return tmp_path / trial_directories.name("sst+pos", 1, 0)


def test_a_trial_stands_for_its_model(trial):
    model = _trial(trial)
    assert trial_directories.find_model(trial) == model
    assert trial_directories.find_model(model) == model


@pytest.mark.parametrize("path", ["gs://bucket/a", "one,two", "nowhere"])
def test_other_paths_are_returned_unchanged(path):
    assert trial_directories.find_model(path) == path


def test_a_restarted_trial_is_refused_naming_the_last_restart(
    trial, monkeypatch
):
    _trial(trial)
    _trial(trial.with_name(trial_directories.name("sst+pos", 10, 1)))
    trial_directories.find_model(trial)  # the restart is of trial 10
    for restart in (2, 10):
        name = trial_directories.name("sst+pos", 1, restart)
        _trial(trial.with_name(name), is_done=restart == 10)
    last = trial.with_name("sst+pos_model_1_restart_10")
    monkeypatch.chdir(trial)
    for path in (trial, pathlib.Path(".")):
        with pytest.raises(UserError, match=f"Name {re.escape(str(last))}, or"):
            trial_directories.find_model(path)
    assert trial_directories.find_model(last) == str(last / "model")


def test_a_trial_whose_restarts_failed_refers_to_the_results(trial):
    model = _trial(trial)
    restarted = trial.with_name(trial_directories.name("sst+pos", 1, 1))
    _trial(restarted)
    (restarted / "result.json").write_text('{"collapsed": true}', "utf-8")
    way_out = f"Name {re.escape(model)} for its model, or .* the results say"
    with pytest.raises(UserError, match=way_out):
        trial_directories.find_model(trial)


def test_a_result_that_is_no_object_is_named(trial):
    _trial(trial)
    restarted = trial.with_name(trial_directories.name("sst+pos", 1, 1))
    _trial(restarted)
    (restarted / "result.json").write_text("[]", "utf-8")
    with pytest.raises(UserError, match=r"result\.json must hold a JSON obje"):
        trial_directories.find_model(trial)


def test_only_runs_on_several_tasks_have_a_subdirectory():
    for name, place in (("sst", "results"), ("sst+pos", "results/sst+pos")):
        found = trial_directories.task_directory("results", name)
        assert found == pathlib.Path(place)
