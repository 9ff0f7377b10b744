"""Workers of a fine-tuning compare settings and inputs before they train."""

import pytest
import tiny_finetuning as tiny
from several_workers import Meeting

from electra_tf.checkpoint.architecture import STEP
from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.finetune.run import finetuning_run
from electra_tf.finetune.run.experiment import Experiment
from electra_tf.finetune.run.trial import Trial
from electra_tf.util import distribution
from electra_tf.util.errors import UserError


def _data(directory, **sizes):
    tiny.write_model(directory)
    tiny.write_sst(directory, **sizes)
    return directory


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return _data(tmp_path_factory.mktemp("data"))


def _prepare_two(monkeypatch, *configs):
    """Returns the experiments, or the errors, of two workers."""
    meeting = Meeting(2)
    monkeypatch.setattr(distribution, "Workers", meeting.workers)
    return meeting.run(lambda i: finetuning_run.prepare(configs[i]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 0.3),
        ("num_train_epochs", 5.0),
        ("num_trials", 2),
        ("iterations_per_loop", 7),
    ],
)
def test_workers_of_other_settings_all_end(monkeypatch, data_dir, name, value):
    configs = tiny.config(data_dir), tiny.config(data_dir, **{name: value})
    for error in _prepare_two(monkeypatch, *configs):
        assert isinstance(error, UserError)
        assert f"{name}" in str(error)


def test_workers_of_other_examples_all_end(monkeypatch, data_dir, tmp_path):
    other = _data(tmp_path, num_train=40)
    configs = tiny.config(data_dir), tiny.config(other)
    for error in _prepare_two(monkeypatch, *configs):
        assert isinstance(error, UserError)
        assert "examples" in str(error)
        assert "encoder" not in str(error)


def test_workers_that_read_copies_agree(monkeypatch, data_dir, tmp_path):
    copy = tiny.config(_data(tmp_path), tensorboard=True)
    made = _prepare_two(monkeypatch, tiny.config(data_dir), copy)
    assert all(isinstance(x, Experiment) for x in made), made


def test_workers_that_restored_another_step_all_end(monkeypatch, data_dir):
    trial = Trial(finetuning_run.prepare(tiny.config(data_dir)), 1, 0)
    trial.directory.mkdir(parents=True)
    meeting = Meeting(2)

    def restore(store):
        step = meeting.thread_local.number
        store.variables[STEP].assign(step)
        return step

    def is_chief(_):
        return meeting.thread_local.number == 0

    monkeypatch.setattr(distribution, "Workers", meeting.workers)
    monkeypatch.setattr(distribution, "is_chief", is_chief)
    monkeypatch.setattr(Checkpoints, "restore_latest", restore)
    errors = meeting.run(lambda _: trial._train())
    assert [type(error) for error in errors] == [UserError] * 2, errors
    for error in errors:
        assert isinstance(error, UserError)
        assert "step" in str(error)
