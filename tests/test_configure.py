"""The whole configurations of pre-training and fine-tuning."""

import contextlib
import json
from dataclasses import asdict

import pytest

from electra_tf import configure_pretraining as configure
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.util.errors import UserError
from electra_tf.util.flags import (
    check_same_experiment,
    flatten,
    parse_flags,
    save_config,
)

RUN = ["--data_dir=d", "--model_name=m"]
ORIGINAL_PRETRAINING = {
    "mask_prob": 0.15,
    "gen_weight": 1.0,
    "disc_weight": 50.0,
    "learning_rate": 5e-4,
    "lr_decay_power": 1.0,
    "weight_decay_rate": 0.01,
    "num_warmup_steps": 10_000,
    "num_train_steps": 1_000_000,
    "train_batch_size": 128,
    "max_seq_length": 128,
    "generator_layers": 1.0,
    "generator_hidden_size": 0.25,
    "keep_checkpoint_max": 5,
}
ORIGINAL_QA = {
    "n_best_size": 20,
    "max_answer_length": 30,
    "answerable_classifier": True,
    "answerable_uses_start_logits": True,
    "answerable_weight": 0.5,
    "joint_prediction": True,
    "beam_size": 20,
}


def pretraining(*arguments):
    return parse_flags(configure.PretrainingConfig, [*RUN, *arguments])


def finetuning(*arguments):
    return parse_flags(
        FinetuningConfig, [*RUN, "--task_names=cola", *arguments]
    )


def test_defaults_are_those_of_the_original():
    assert (
        flatten(asdict(pretraining())).items() >= ORIGINAL_PRETRAINING.items()
    )
    assert flatten(asdict(finetuning())).items() >= ORIGINAL_QA.items()


def test_paths_follow_the_data_directory_unless_they_are_given():
    config = pretraining(
        "--seq_length_phases=128:0.9:64,512:0.1", "--max_seq_length=512"
    )
    assert config.run.model_dir == "d/models/m"
    records = ("d/pretrain_tfrecords_128", "d/pretrain_tfrecords")
    assert config.outputs == ("d/vocab.txt", *records, "d/models")
    globs = [config.pretrain_tfrecords_of(d) for d in config.corpus.data_sets]
    assert globs == [f"{x}/pretrain_data.tfrecord*" for x in records]
    named = pretraining("--vocab_file=v", "--eval_tfrecords=e")
    assert (named.vocab_file, named.eval_tfrecords) == ("v", "e")
    tuned = finetuning("--task_names=cola,sst")
    trial = "d/models/m/finetuning_models/cola+sst_model_2"
    assert tuned.trial_dir(2, 0) == trial
    assert tuned.trial_dir(2, 1) == f"{trial}_restart_1"
    assert tuned.results_dir == "d/models/m/results"


def test_activations_are_those_of_the_largest_micro_batch():
    config = pretraining(
        "--train_batch_size=32",
        "--seq_length_phases=64:0.5,128:0.5:8",
        "--gradient_accumulation_steps=2",
    )
    assert config.num_activations == 32 * 64 / 2 * 256


@pytest.mark.parametrize(
    ("hparams", "expected"),
    [
        ('{"electra_objective": false}', {"objective": "mlm"}),
        (
            '{"electric_objective": true, "electra_objective": false}',
            {"objective": "electric"},
        ),
        ('{"two_tower_generator": true}', {"generator_type": "two_tower"}),
        ('{"untied_generator": false}', {"generator_sharing": "all"}),
        (
            '{"untied_generator_embeddings": true}',
            {"generator_sharing": "none"},
        ),
        ('{"keep_checkpoint_max": null}', {"keep_checkpoint_max": 0}),
        ('{"use_tpu": true}', {"strategy": "tpu"}),
        (
            '{"model_hparam_overrides": {"hidden_size": 64}}',
            {"hidden_size": 64},
        ),
        ('{"embedding_size": null, "debug": false}', {}),
    ],
)
def test_hyperparameters_of_the_original_mean_what_they_meant(
    hparams, expected
):
    flags = [f"--{name}={value}" for name, value in expected.items()]
    assert pretraining(f"--hparams={hparams}") == pretraining(*flags)


def test_the_originals_command_line_of_fine_tuning_works():
    hparams = {"task_names": ["mrpc"], "num_trials": 3, "use_tpu": False}
    arguments = ["--data-dir=d", "--model-name=m"]
    arguments.append(f"--hparams={json.dumps(hparams)}")
    config = parse_flags(FinetuningConfig, arguments)
    assert config.task.task_name == "mrpc" and config.run.num_trials == 3


@pytest.mark.parametrize(
    ("parse", "arguments"),
    [
        (pretraining, "--max_seq_length=1024"),
        (pretraining, "--gradient_accumulation_steps=3"),
        (
            pretraining,
            "--seq_length_phases=128:1:9 --gradient_accumulation_steps=2",
        ),
        (pretraining, "--mask_prob=0.001"),
        (pretraining, "--length_buckets=6,128"),
        (pretraining, "--shift_positions"),
        (pretraining, "--original_behaviour=masking --masking_strategy=span"),
        (finetuning, "--task_names=sst,sst"),
        (finetuning, "--nodo_eval"),
        (finetuning, "--gradient_accumulation_steps=5"),
    ],
)
def test_values_that_do_not_fit_are_refused(parse, arguments):
    with pytest.raises(UserError):
        parse(*arguments.split())


@pytest.mark.parametrize(
    ("flag", "is_free"),
    [
        ("--num_trials=3", True),
        ("--test_file=x", True),
        ("--max_seq_length=64", False),
        ("--learning_rate=1", False),
    ],
)
def test_a_trial_resumes_only_with_what_defines_it(tmp_path, flag, is_free):
    path = tmp_path / "config.json"
    save_config(path, finetuning())
    refused = pytest.raises(UserError)
    with contextlib.nullcontext() if is_free else refused:
        check_same_experiment(path, finetuning(flag))
