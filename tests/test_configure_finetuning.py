import contextlib
import json

import pytest

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.util import config_files, config_flags
from electra_tf.util.errors import UserError

GIVEN = ("--data_dir=d", "--model_name=m", "--task_names=cola")


def _parse(*arguments):
    return config_flags.parse(FinetuningConfig, [*GIVEN, *arguments])


def test_the_originals_command_line_works():
    hparams = {
        "task_names": ["mrpc"],
        "num_trials": 3,
        "layerwise_lr_decay": 0.9,
        "write_test_outputs": True,
        "use_tpu": False,
    }
    arguments = ["--data-dir=d", "--model-name=m"]
    arguments.append(f"--hparams={json.dumps(hparams)}")
    config = config_flags.parse(FinetuningConfig, arguments)
    assert config.task.task_name == "mrpc"
    assert config.run.num_trials == 3 and config.run.write_test_outputs
    assert config.optimizer.layerwise_lr_decay == 0.9


def test_directories_are_the_originals():
    config = _parse()
    assert config.run.model_dir == "d/models/m"
    assert config.run.tasks_dir == "d/finetuning_data"
    trial = "d/models/m/finetuning_models/cola_model_2"
    assert config.trial_dir(2, 0) == trial
    assert config.trial_dir(2, 1) == f"{trial}_restart_1"
    assert config.results_dir == "d/models/m/results"
    several = _parse("--task_names=cola,sst,chunk")
    assert several.task.task_names == ("cola", "sst", "chunk")
    trial = "d/models/m/finetuning_models/cola+sst+chunk_model_1"
    assert several.trial_dir(1, 0) == trial


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--task_names="], "`task_names` must name a task.*nothing"),
        (["--task_names=sst,sst"], "each once.*sst, sst"),
        (["--data_dir="], "`data_dir` must name a dir.*Set --data_dir"),
        (["--data_dir=gs://b/d"], "this machine.*gs://b/d.*--init_checkpoint"),
        (["--model_name="], "inside <data_dir>/models.*Set --model_name"),
        (["--model_name=../../../x"], "model_name='../../../x'"),
        (["--model_name=/x"], "model_name='/x'"),
        (["--model_name=.."], "`model_name` must be the name of a directory"),
        (["--task_sampling_alpha=2"], r"alpha.*in \[0, 1\]"),
        (["--num_trials=0"], "num_trials"),
        (["--ensemble"], "at least two trials.*Set --num_trials"),
        (["--restart_learning_rate_factor=0"], "restart_learning_rate_fa"),
        (["--layerwise_lr_decay=0"], "layerwise_lr_decay"),
        (["--warmup_proportion=1.5"], "warmup_proportion"),
        (["--nodo_eval"], "do_eval.*--checkpoint=last"),
        (["--gradient_accumulation_steps=5"], "must divide"),
        (["--learning_rte=1"], "Did you mean --learning_rate"),
    ],
)
def test_invalid_flags_are_refused_with_a_remedy(arguments, problem):
    with pytest.raises(UserError, match=problem):
        _parse(*arguments)


def test_the_last_list_of_tasks_wins():
    assert _parse("--task_names=sst").task.task_names == ("sst",)


def test_evaluation_can_be_switched_off():
    for other in ("--checkpoint=last", "--nodo_train"):
        assert not _parse("--nodo_eval", other).run.do_eval


@pytest.mark.parametrize(
    ("flag", "is_free"),
    [
        ("--num_trials=3", True),
        ("--test_file=x", True),
        ("--eval_batch_size=1", True),
        ("--max_seq_length=64", False),
        ("--max_answer_length=9", False),
        ("--task_sampling_alpha=0.5", False),
        ("--learning_rate=1", False),
        ("--seed=1", False),
    ],
)
def test_a_trial_resumes_only_with_what_defines_it(tmp_path, flag, is_free):
    path = tmp_path / "config.json"
    config_files.save_config(path, _parse())
    refused = pytest.raises(UserError, match=flag[2:].partition("=")[0])
    with contextlib.nullcontext() if is_free else refused:
        config_files.check_same_experiment(path, _parse(flag))
