"""Whole configurations: defaults, shipped files, paths, what is refused."""

import dataclasses
import json

import golden_arrays
import pytest

from electra_tf.config.objectives import get_class
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.finetune.task_builder import TASKS
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


CONFIGS = golden_arrays.HERE.parent / "configs"
# Table 6 of the paper: layers, hidden, heads, feed-forward, embedding, the
# generator's hidden size and heads, mask %, length, rate, batch, steps.
TABLE_6 = {
    "small": (12, 256, 4, 1024, 128, 64, 1, 15, 128, 5e-4, 128, 1_000_000),
    "base": (12, 768, 12, 3072, 768, 256, 4, 15, 512, 2e-4, 256, 766_000),
    "large": (24, 1024, 16, 4096, 1024, 256, 4, 25, 512, 2e-4, 2048, 400_000),
}


def _parse(*names):
    flags = [f"--flagfile={CONFIGS / name}.cfg" for name in names]
    return parse_flags(PretrainingConfig, flags)


@pytest.mark.parametrize("size", TABLE_6)
def test_sizes_are_those_of_the_paper(size):
    config = _parse(size)
    discriminator = config.model.discriminator(30522)
    generator = config.model.generator(30522)
    assert TABLE_6[size] == (
        discriminator.num_hidden_layers,
        discriminator.hidden_size,
        discriminator.num_attention_heads,
        discriminator.intermediate_size,
        discriminator.embedding_size,
        generator.hidden_size,
        generator.num_attention_heads,
        round(100 * config.masking.mask_prob),
        config.corpus.max_seq_length,
        config.optimizer.learning_rate,
        config.training.train_batch_size,
        config.training.num_train_steps,
    )
    assert config.optimizer.num_warmup_steps == 10_000
    assert config.optimizer.weight_decay_rate == 0.01
    assert discriminator.hidden_dropout_prob == 0.1
    assert generator.num_hidden_layers == discriminator.num_hidden_layers
    assert generator.intermediate_size == 4 * generator.hidden_size


@pytest.mark.parametrize("size", ["demo", "mini", "small", "base", "large"])
@pytest.mark.parametrize(
    "path", sorted((CONFIGS / "ablations").glob("*.cfg")), ids=lambda p: p.stem
)
def test_an_ablation_is_valid_at_each_size(path, size):
    header = " ".join(path.read_text().replace("#", "").split())
    if size != "demo" and "Use it after configs/demo.cfg" in header:
        pytest.skip("the header says that other sizes need other flags")
    config = _parse(size, f"ablations/{path.stem}")
    get_class(config.objective.objective).check(config)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_configuration_keeps_all_other_defaults(name):
    flags = [f"--flagfile={CONFIGS / 'finetune' / name}.cfg"]
    config = parse_flags(FinetuningConfig, flags)
    assert config.task.task_name == name
    run = _parse("demo").run
    assert config.run.model_dir == run.model_dir
    plain = parse_flags(
        FinetuningConfig,
        [f"--data_dir={run.data_dir}", f"--model_name={run.model_name}"]
        + [f"--task_names={name}"],
    )
    assert config == plain
