import dataclasses

import pytest

from electra_tf import configure_pretraining as configure
from electra_tf.util import config_flags
from electra_tf.util.config_fields import leaves
from electra_tf.util.errors import UserError

_FAST = "--objective=fast_electra --generator_sharing"
_RUN = configure.RunConfig(data_dir="d", model_name="m")


def _parse(*arguments):
    return config_flags.parse(
        configure.PretrainingConfig,
        ["--data_dir=d", "--model_name=m", *arguments],
    )


def test_defaults_are_those_of_the_original():
    config = configure.PretrainingConfig(run=_RUN)
    assert config.masking.mask_prob == 0.15
    assert config.objective.gen_weight == 1.0
    assert config.objective.disc_weight == 50.0
    assert config.optimizer.learning_rate == 5e-4
    assert config.optimizer.weight_decay_rate == 0.01
    assert config.optimizer.num_warmup_steps == 10_000
    assert config.training.num_train_steps == 1_000_000
    assert config.training.train_batch_size == 128
    assert config.corpus.max_seq_length == 128
    assert config.model.generator_hidden_size == 0.25
    assert config.runtime.keep_checkpoint_max == 5


def test_no_flags_give_the_defaults():
    assert _parse() == configure.PretrainingConfig(run=_RUN)


def test_every_field_is_documented():
    for leaf in leaves(configure.PretrainingConfig):
        assert leaf.help, leaf.field.name
        assert leaf.help.endswith("."), leaf.field.name


@pytest.mark.parametrize(
    ("mask_prob", "length", "expected"),
    [
        (0.15, 16, 2),
        (0.15, 32, 4),
        (0.15, 64, 9),
        (0.15, 128, 19),
        (0.15, 256, 39),
        (0.15, 512, 79),
        (0.25, 128, 32),
        (0.25, 512, 130),
        (0.999, 512, 512),  # the original has 514, over the length
    ],
)
def test_number_of_slots_is_that_of_the_original(mask_prob, length, expected):
    masking = configure.MaskingConfig(mask_prob=mask_prob)
    assert masking.max_predictions_per_seq(length) == expected


def test_number_of_slots_fits_the_larger_mask_prob():
    for shares in ((0.15, 0.3), (0.3, 0.15)):
        masking = configure.MaskingConfig(
            mask_prob=shares[0], mask_prob_end=shares[1]
        )
        assert masking.max_predictions_per_seq(128) == 39


def test_all_chosen_tokens_may_be_replaced():
    masking = _parse("--mask_token_prob=0.8", "--random_token_prob=0.2").masking
    assert (masking.mask_token_prob, masking.random_token_prob) == (0.8, 0.2)


def test_the_share_of_masks_changes_linearly():
    masking = configure.MaskingConfig(mask_prob=0.1, mask_prob_end=0.3)
    shares = [masking.mask_prob_at(x) for x in (0.0, 0.25, 1.0)]
    assert shares == pytest.approx([0.1, 0.15, 0.3], rel=1e-12)
    assert configure.MaskingConfig().mask_prob_at(0.5) == 0.15


def test_paths_follow_the_data_directory_unless_they_are_given():
    config = _parse()
    assert config.run.model_dir == "d/models/m"
    assert config.vocab_file == "d/vocab.txt"
    records = "d/pretrain_tfrecords/"
    assert config.pretrain_tfrecords == records + "pretrain_data.tfrecord*"
    assert config.eval_tfrecords == records + "held_out_data.tfrecord*"
    config = _parse("--vocab_file=v", "--eval_tfrecords=e")
    assert (config.vocab_file, config.eval_tfrecords) == ("v", "e")


def test_outputs_are_the_vocabulary_all_records_and_the_models():
    config = _parse("--vocab_file=v", "--seq_length_phases=32:0.5,128:0.5")
    records = ("d/pretrain_tfrecords_32", "d/pretrain_tfrecords")
    assert config.outputs == ("v", *records, "d/models")


def test_records_of_shorter_phases_lie_beside_those_of_the_longest():
    config = _parse(
        "--seq_length_phases=128:0.9:64,512:0.1", "--max_seq_length=512"
    )
    globs = [config.pretrain_tfrecords_of(d) for d in config.corpus.data_sets]
    name = "pretrain_data.tfrecord*"
    assert globs == [
        f"d/pretrain_tfrecords_128/{name}",
        f"d/pretrain_tfrecords/{name}",
    ]
    assert [phase.batch_size for phase in config.phases] == [64, 128]
    named = dataclasses.replace(
        config, data=configure.DataConfig(pretrain_tfrecords="a/x*,b/y*")
    )
    short, _ = named.corpus.data_sets
    assert named.pretrain_tfrecords_of(short) == "a_128/x*,b_128/y*"


def test_milestones_are_steps():
    config = _parse("--num_train_steps=80", "--checkpoint_milestones=.001,.5,1")
    assert config.milestones == {1, 40, 80}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--max_seq_length=1024", "at most 512, .*=1024.*--max_position_emb"),
        ("--gradient_accumulation_steps=3", "must divide `train_batch_size`"),
        ("--mask_prob=0", r"`mask_prob` must be in \(0, 1\)"),
        ("--mask_prob=0.001", "choose at least one token"),
        ("--shift_positions", "rows of 128 tokens. Set --seq_length_phases"),
        ("--length_buckets=6,128", "choose at least one token.*rows of 6"),
        ("--seq_length_phases=6:.5,128:.5", "at least one token.*rows of 6"),
        ("--seq_length_phases=64:.5,128:.5 --num_train_steps=1", "an update"),
        ("--seq_length_phases=64:1", "--max_seq_length=64"),
        (
            "--seq_length_phases=128:1:9 --gradient_accumulation_steps=2",
            "batches of 9 rows",
        ),
        ("--mask_prob_end=1", r"`mask_prob_end` must be in \(0, 1\)"),
        ("--masking_strategy=words", "one of .uniform.whole_word.ngram"),
        ("--original_masking --masking_strategy=span", "one of the two out"),
        ("--join_timeout=0", "`join_timeout` must be at least 1"),
        ("--heartbeat_timeout=9", "`heartbeat_timeout` must be at least 10"),
        ("--max_ngram=0", "`max_ngram` must be at least 1"),
        ("--unigram_alpha=-1", "`unigram_alpha` must be at least 0"),
        ("--mask_token_prob=.9 --random_token_prob=.2", "must be at most 1"),
        ("--top_k=-1", "`top_k` must be at least 0"),
        ("--temperature_end=0", "`temperature_end` must be positive"),
        ("--generator_learning_rate=0", "`generator_learning_rate` must be"),
        ("--disc_weight_start_step=2", "must be at least `disc_weight_start"),
        (
            "--disc_weight_start_step=9 --disc_weight_end_step=9 "
            "--num_train_steps=9",
            "_start_step` must be less than `num_train_steps`, 9. Received",
        ),
        (f"{_FAST}=none --temperature_time=0", "_time` must be positive"),
        ("--reset_step", "`reset_step` is read only with --init_checkpoint"),
        ("--init_partially", "Set --init_checkpoint, or leave --init_partial"),
        ("--type_vocab_size=1", "_size` must be at least 2, as rows have two"),
        ("--train_batch_size=0", "`train_batch_size` must be at least 1"),
        ("--num_warmup_steps=-1", "`num_warmup_steps` must be at least 0"),
        ("--learning_rate=nan", "`learning_rate` .*, numbers finite"),
        ("--checkpoint_milestones=0,1", "fractions in"),
        ("--held_out_fraction=1", "`held_out_fraction` must be in"),
        ("--model_name=", "`model_name` must be the name of a directory"),
        ("--model_name=a/b", "model_name='a/b'"),
        ("--model_name=..", "`model_name`"),
        ("--data_dir=", "Set --data_dir"),
    ],
)
def test_values_out_of_range_are_refused(flags, message):
    with pytest.raises(UserError, match=message):
        _parse(*flags.split())


@pytest.mark.parametrize(
    ("hparams", "expected"),
    [
        ('{"electra_objective": false}', {"objective": "mlm"}),
        (
            '{"electric_objective": true, "electra_objective": false}',
            {"objective": "electric"},
        ),
        ('{"two_tower_generator": true}', {"generator_type": "two_tower"}),
        (
            '{"electric_objective": true, "two_tower_generator": true}',
            {"objective": "electric", "generator_type": "two_tower"},
        ),
        ('{"untied_generator": false}', {"generator_sharing": "all"}),
        (
            '{"untied_generator_embeddings": true}',
            {"generator_sharing": "none"},
        ),
        ('{"keep_checkpoint_max": null}', {"keep_checkpoint_max": 0}),
        ('{"keep_checkpoint_max": 2}', {"keep_checkpoint_max": 2}),
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
    assert _parse(f"--hparams={hparams}") == _parse(*flags)


def test_activations_are_those_of_the_largest_micro_batch():
    config = _parse(
        "--model_size=small",
        "--train_batch_size=32",
        "--max_seq_length=128",
        "--seq_length_phases=64:0.5,128:0.5:8",
        "--gradient_accumulation_steps=2",
    )
    assert config.num_activations == 32 * 64 / 2 * 256
