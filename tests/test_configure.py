"""The whole configurations of pre-training and fine-tuning."""

import dataclasses
import json

import pytest

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util.errors import UserError
from electra_tf.util.flags import (
    check_same_experiment,
    flatten,
    parse_flags,
    save_config,
)

RUN = ["--data_dir=d", "--model_name=m"]


def pretraining(*arguments):
    return parse_flags(PretrainingConfig, [*RUN, *arguments])


def finetuning(*arguments):
    return parse_flags(
        FinetuningConfig, [*RUN, "--task_names=cola", *arguments]
    )


@pytest.mark.parametrize(
    ("parse", "defaults"),
    [
        (
            pretraining,
            "mask_prob=0.15 gen_weight=1 disc_weight=50 learning_rate=5e-4 "
            "lr_decay_power=1 weight_decay_rate=0.01 num_warmup_steps=10000 "
            "num_train_steps=1000000 train_batch_size=128 max_seq_length=128 "
            "generator_layers=1 generator_hidden_size=0.25 "
            "keep_checkpoint_max=5",
        ),
        (
            finetuning,
            "n_best_size=20 max_answer_length=30 answerable_classifier=1 "
            "answerable_uses_start_logits=1 answerable_weight=0.5 "
            "joint_prediction=1 beam_size=20",
        ),
    ],
)
def test_defaults_are_those_of_the_original(parse, defaults):
    values = flatten(dataclasses.asdict(parse()))
    for name, value in (pair.split("=") for pair in defaults.split()):
        assert values[name] == float(value), name


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


@pytest.mark.parametrize(
    ("hparams", "flags"),
    [
        ({"electra_objective": False}, "--objective=mlm"),
        (
            {"electric_objective": True, "electra_objective": False},
            "--objective=electric",
        ),
        ({"two_tower_generator": True}, "--generator_type=two_tower"),
        ({"untied_generator": False}, "--generator_sharing=all"),
        ({"untied_generator_embeddings": True}, "--generator_sharing=none"),
        ({"keep_checkpoint_max": None}, "--keep_checkpoint_max=0"),
        ({"use_tpu": True}, "--strategy=tpu"),
        ({"model_hparam_overrides": {"hidden_size": 64}}, "--hidden_size=64"),
        ({"embedding_size": None, "debug": False}, "--nodeterministic"),
    ],
)
def test_hyperparameters_of_the_original_keep_their_meaning(hparams, flags):
    config = pretraining(f"--hparams={json.dumps(hparams)}")
    assert config == pretraining(flags)


@pytest.mark.parametrize(
    ("parse", "arguments"),
    [
        (pretraining, "--max_seq_length=1024"),
        (
            pretraining,
            "--seq_length_phases=128:1:9 --gradient_accumulation_steps=2",
        ),
        (pretraining, "--mask_prob=0.001"),
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


def test_a_trial_resumes_only_with_what_defines_it(tmp_path):
    path = tmp_path / "config.json"
    save_config(path, finetuning())
    for flag in ("--num_trials=3", "--test_file=x"):
        check_same_experiment(path, finetuning(flag))
    for flag in ("--max_seq_length=64", "--learning_rate=1"):
        with pytest.raises(UserError):
            check_same_experiment(path, finetuning(flag))
