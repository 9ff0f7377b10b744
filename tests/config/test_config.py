"""The parts of configurations: their values, and what they refuse."""

import pytest

from electra_tf.config.analysis import AnalysisConfig, ConvertConfig
from electra_tf.config.columns import ColumnsConfig, QAConfig
from electra_tf.config.corpus import (
    CorpusConfig,
    Phase,
    phase_at,
    plan_phases,
    tokens_after,
)
from electra_tf.config.model import ModelConfig
from electra_tf.config.objectives import MaskingConfig, ObjectiveConfig
from electra_tf.config.optimizer import (
    FinetuningOptimizerConfig,
    default_epochs,
)
from electra_tf.util.errors import UserError

SMALL = (256, 12, 4, 1024, 128)


def shape(bert):
    return (
        bert.hidden_size,
        bert.num_hidden_layers,
        bert.num_attention_heads,
        bert.intermediate_size,
        bert.embedding_size,
    )


@pytest.mark.parametrize(
    ("values", "discriminator", "generator"),
    [
        (
            {"model_size": "base", "hidden_size": 144},
            (144, 12, 2, 576, 144),
            (36, 12, 1, 144, 144),
        ),
        (
            {"generator_hidden_size": 0.375, "generator_layers": 0.25}
            | {"generator_num_attention_heads": 2, "intermediate_size": 100},
            (256, 12, 4, 100, 128),
            (96, 3, 2, 384, 128),
        ),
        ({"generator_sharing": "none"}, SMALL, (64, 12, 1, 256, 64)),
        ({"generator_sharing": "all"}, SMALL, SMALL),
    ],
)
def test_sizes_follow_from_those_given(values, discriminator, generator):
    config = ModelConfig(**values)
    assert shape(config.discriminator(9)) == discriminator
    assert shape(config.generator(9)) == generator


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, (50, 2, 5)),
        ({"objective": "teams"}, (5, 2, 5)),
        ({"objective": "script"}, (1, 2, 5)),
        ({"objective": "mc_bert"}, (50, 50, 10)),
        ({"objective": "teams", "disc_weight": 7.0}, (7, 2, 5)),
    ],
)
def test_an_objective_brings_its_published_defaults(values, expected):
    config = ObjectiveConfig(**values)
    weights = (config.disc_weight, config.selection_weight)
    assert (*weights, config.num_candidates) == expected


@pytest.mark.parametrize(
    ("mask_prob", "end", "length", "expected"),
    [
        *((0.15, None, 16, 2), (0.15, None, 128, 19), (0.15, None, 512, 79)),
        *((0.25, None, 128, 32), (0.25, None, 512, 130)),
        (0.999, None, 512, 512),  # the original has 514, over the length
        *((0.15, 0.3, 128, 39), (0.3, 0.15, 128, 39)),
    ],
)
def test_number_of_slots_is_that_of_the_original(
    mask_prob, end, length, expected
):
    masking = MaskingConfig(mask_prob=mask_prob, mask_prob_end=end)
    assert masking.max_predictions_per_seq(length) == expected


@pytest.mark.parametrize(
    ("hidden_size", "rates"),
    [
        *((width, (1e-3, 0.8)) for width in (16, 255)),  # not in the paper
        *((width, (3e-4, 0.8)) for width in (256, 512)),
        *((768, (1e-4, 0.8)), (1024, (5e-5, 0.9))),
    ],
)
def test_rates_are_those_of_table_7_by_width(hidden_size, rates):
    assert FinetuningOptimizerConfig().rates(hidden_size) == rates
    given = FinetuningOptimizerConfig(model_size="large", learning_rate=1e-3)
    assert given.rates(hidden_size) == (1e-3, 0.9)


@pytest.mark.parametrize(
    ("usual", "hidden_size", "updates_per_epoch", "expected"),
    [(3, 255, 500, 3), (3, 255, 200, 5), (3, 255, 7, 10), (3, 256, 7, 3)],
)
def test_narrow_encoders_get_1000_updates_within_10_epochs(
    usual, hidden_size, updates_per_epoch, expected
):
    assert default_epochs(usual, hidden_size, updates_per_epoch) == expected


def test_each_row_length_has_one_data_set_in_its_own_directory():
    config = CorpusConfig(
        max_seq_length=512,
        seq_length_phases="128:0.5,64:0.2,128:0.2,512:0.1",
    )
    data_sets = config.data_sets
    assert [d.max_seq_length for d in data_sets] == [64, 128, 512]
    directories = [config.directory_of(d, "a/b/") for d in data_sets]
    assert directories == ["a/b_64", "a/b_128", "a/b/"]
    assert CorpusConfig().data_sets == (CorpusConfig(),)


def plan(text, num_train_steps=1000):
    return plan_phases(
        text, num_train_steps=num_train_steps, batch_size=64, max_seq_length=512
    )


def test_phases_follow_each_other_by_their_shares():
    assert plan("") == (Phase(0, 1000, 64, 512, 512),)
    phases = plan("128:0.9:256,512:0.1")
    assert phases[0] == Phase(0, 900, 256, 128, 128)
    assert phases[1] == Phase(900, 1000, 64, 512, 512)
    assert [phase_at(phases, x) for x in (0, 899, 900, 1000)] == [0, 0, 1, 1]
    last = 100 * 64 * 512
    for step, left in ((1000, 0), (900, last), (899, last + 256 * 128)):
        assert tokens_after(phases, step) == left
    with pytest.raises(UserError):  # a phase without an update
        plan("128:0.9,512:0.1", 4)


@pytest.mark.parametrize("length", [12, 31, 128, 195, 512])
def test_fitted_questions_and_strides_leave_windows_that_overlap(length):
    fitted = QAConfig(beam_size=3).fitted(length)
    assert fitted.beam_size == 3 and fitted.fitted(2 * length) == fitted
    if length >= 195:  # the original's lengths fit
        assert (fitted.max_query_length, fitted.doc_stride) == (64, 128)


def test_given_lengths_win_over_fitted_ones():
    given = QAConfig(max_query_length=24, doc_stride=64)
    assert given.fitted(128) == given
    assert QAConfig(max_query_length=24).fitted(64).doc_stride == 18
    assert QAConfig(doc_stride=50).fitted(64).max_query_length == 11
    assert given.fitted(91) == given
    with pytest.raises(UserError):
        given.fitted(90)


KIND = {"task_kind": "classification"}
REFUSED = [
    (ModelConfig, {"model_size": "tiny"}),
    (ModelConfig, {"hidden_size": 20, "num_attention_heads": 3}),
    (ModelConfig, {"hidden_dropout_prob": 1.5}),
    (ObjectiveConfig, {"objective": "magic"}),
    (ObjectiveConfig, {"disc_weight_steps": (2, 1)}),
    (MaskingConfig, {"mask_token_prob": 0.9, "random_token_prob": 0.2}),
    (CorpusConfig, {"seq_length_phases": "64:0.5,512:0.5"}),
    (CorpusConfig, {"seq_length_phases": "64:0.5,128:0.6"}),
    (CorpusConfig, {"seq_length_phases": "64:0.9,128"}),
    (ColumnsConfig, {**KIND, "main_metric": "pearson"}),
    (ColumnsConfig, {**KIND, "labels": ("a", "a")}),
    (AnalysisConfig, {"what": "rank", "model": "m", "test": ("a",)}),
    (ConvertConfig, {"input": "a", "output": "b", "num_hidden_layers": 1}),
]


@pytest.mark.parametrize(("config_class", "values"), REFUSED)
def test_values_that_do_not_fit_are_refused(config_class, values):
    with pytest.raises(UserError):
        config_class(**values)
