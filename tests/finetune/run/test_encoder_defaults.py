"""What the encoder decides where no flag does."""

import dataclasses
import json

import pytest
import tiny_finetuning as tiny

from electra_tf.finetune import task_builder
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.run import encoder_defaults, finetuning_run
from electra_tf.util import config_flags, files
from electra_tf.util.errors import UserError


def _weights(dropout=0.1, **sizes):
    read = tiny.weights()
    encoder = dataclasses.replace(
        tiny.ENCODER,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        **sizes,
    )
    architecture = dataclasses.replace(read.architecture, encoder=encoder)
    return dataclasses.replace(read, architecture=architecture)


def _settled(weights, **leaves):
    leaves = {"learning_rate": None, **leaves}
    return encoder_defaults.settle(tiny.config(**leaves), weights)


def test_an_encoder_of_the_demos_size_has_what_it_was_measured_with():
    config, weights = _settled(_weights(0.0, hidden_size=128))
    assert config.optimizer.learning_rate == 1e-3
    assert config.optimizer.layerwise_lr_decay == 0.8
    assert config.training.hidden_dropout_prob == 0.1
    assert config.training.attention_probs_dropout_prob == 0.1
    assert weights.architecture.encoder.hidden_dropout_prob == 0.1
    assert weights.architecture.encoder.attention_probs_dropout_prob == 0.1


def test_dropout_of_pre_training_stays():
    config, weights = _settled(_weights(0.2))
    assert config.training.hidden_dropout_prob == 0.2
    assert weights.architecture.encoder.hidden_dropout_prob == 0.2


def test_flags_win_over_the_encoder():
    given = {
        "learning_rate": 5e-4,
        "layerwise_lr_decay": 0.5,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.3,
        "max_query_length": 7,
        "doc_stride": 9,
    }
    config, weights = _settled(_weights(), **given)
    encoder = weights.architecture.encoder
    assert encoder.hidden_dropout_prob == 0.0
    assert encoder.attention_probs_dropout_prob == 0.3
    for part in (config.optimizer, config.training, config.qa):
        for field in dataclasses.fields(part):
            if field.name in given:
                assert getattr(part, field.name) == given[field.name]
    assert "learning_rate" not in encoder_defaults.chosen(
        tiny.config(**given), config
    )


def test_questions_and_strides_fit_the_positions():
    qa = _settled(_weights(max_position_embeddings=64), task_names=("squad",))
    assert (qa[0].qa.max_query_length, qa[0].qa.doc_stride) == (16, 22)
    own = {"task_names": ("faq",), "task_kind": "qa", "max_seq_length": 48}
    config, _ = _settled(_weights(max_position_embeddings=64), **own)
    assert (config.qa.max_query_length, config.qa.doc_stride) == (12, 16)
    config, _ = _settled(_weights())  # no questions: as it always was
    assert (config.qa.max_query_length, config.qa.doc_stride) == (64, 128)


def test_a_task_of_questions_fits_itself(tmp_path):
    task = task_builder.get_task(
        tiny.config(tmp_path, task_names=("squad",)),
        TextTokenizer(tiny.VOCABULARY),
        longest=64,
    )
    assert task.max_seq_length == 64


def test_what_is_chosen_is_told(tmp_path, capsys):
    tiny.write_model(tmp_path)
    tiny.write_sst(tmp_path)
    config = tiny.config(tmp_path, learning_rate=None, hidden_dropout_prob=0.3)
    experiment = finetuning_run.prepare(config)
    assert experiment.config.optimizer.learning_rate == 1e-3
    said = capsys.readouterr().out
    assert "--learning_rate=0.001 --layerwise_lr_decay=0.8" in said
    assert "--attention_probs_dropout_prob=0.1" in said
    assert "--hidden_dropout_prob" not in said and "--doc_stride" not in said


@pytest.mark.parametrize(
    ("hidden_size", "dropout", "problem"),
    [
        (256, 0.1, None),
        (128, 0.1, "learning_rate: 0.0003 there, 0.001 now"),
        (256, 0.0, "hidden_dropout_prob: 0.0 there, 0.1 now"),
        (256, 0.2, None),
    ],
)
def test_an_earlier_run_goes_on_as_it_was_or_not_at_all(
    hidden_size, dropout, problem, tmp_path
):
    weights = _weights(dropout, hidden_size=hidden_size)
    before = tiny.config(learning_rate=None)
    path = tmp_path / "config.json"
    config_flags.save_config(path, before)
    parts = json.loads(path.read_text("utf-8"))
    parts["qa"] |= {"max_query_length": 64, "doc_stride": 128}
    files.write_json(path, parts)  # as earlier versions wrote it
    config, _ = encoder_defaults.settle(before, weights)
    unset = encoder_defaults.of_earlier_versions(before, weights)

    def check():
        config_flags.check_same_experiment(path, config, unset=unset)

    if problem is None:
        check()
        return
    with pytest.raises(UserError, match=problem):
        check()
    given = tiny.config(
        learning_rate=3e-4 if hidden_size == 128 else None,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    config, _ = encoder_defaults.settle(given, weights)
    check()  # with the flags of the values that are there


def test_another_dropout_than_an_earlier_runs_is_refused(tmp_path):
    before = tiny.config()
    config_flags.save_config(tmp_path / "config.json", before)
    given = tiny.config(hidden_dropout_prob=0.3)
    config, _ = encoder_defaults.settle(given, _weights(0.1))
    unset = encoder_defaults.of_earlier_versions(given, _weights(0.1))
    with pytest.raises(UserError, match="prob: 0.1 there, 0.3 now"):
        config_flags.check_same_experiment(
            tmp_path / "config.json", config, unset=unset
        )
