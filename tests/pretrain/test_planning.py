"""A plan is a function of measured speeds, which are invented here."""

import math
import pathlib

import pytest
import tiny

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain import flops, plan_sizes, planning
from electra_tf.pretrain.objectives import get_class
from electra_tf.pretrain.plan_sizes import MODEL_SIZES, SIZE_NAMES, configure
from electra_tf.pretrain.planning import Budget, PlannedRun, TimedUpdate
from electra_tf.util import config_flags
from electra_tf.util.errors import UserError

CONFIGS = pathlib.Path(__file__).parents[2] / "configs"
BY_NAME = dict(zip(SIZE_NAMES, MODEL_SIZES, strict=True))
HOUR = Budget(seconds=3600, text_tokens=1e8)


def _shipped(name):
    flags = [f"--flagfile={CONFIGS / name}.cfg"]
    return config_flags.parse(PretrainingConfig, flags)


def _measured(name, rows, *figures):
    return TimedUpdate(configure(BY_NAME[name], {}, rows), *figures)


DEMO = _measured("demo", 32, 0.05, 10, 1e9)


def _planned(candidate, given=()):
    flags = planning.flags_of(candidate, dict(given))
    run_flags = {"data_dir": "unused", "model_name": "unused"}
    return PretrainingConfig.from_flags(flags | run_flags)


def _candidate(name, tokens_per_parameter, *, fits=True, num_steps=20_000):
    shape = configure(BY_NAME[name], {}).model.discriminator(4096)
    return PlannedRun(
        size=BY_NAME[name],
        shape=shape,
        num_steps=num_steps,
        num_pieces=1,
        start_seconds=10.0,
        update_seconds=0.25,
        tokens=tokens_per_parameter * plan_sizes.parameters(shape),
        passes=1.0,
        flops=1e15,
        memory_bytes=2e9,
        fits=fits,
    )


def test_a_measured_size_is_predicted_from_its_own_seconds():
    found = planning.predict(BY_NAME["demo"], {}, HOUR, [DEMO])
    assert found.num_steps == 71_800  # (3600 - 10) / 0.05
    assert found.seconds == pytest.approx(3600)
    assert found.tokens == 71_800 * 32 * 64
    assert found.passes == pytest.approx(1.470464)
    tables = (4096 + 64 + 2) * 128 + 2 * 128
    block = 4 * (128 * 128 + 128) + 2 * 128 * 512 + 512 + 128 + 4 * 128
    assert found.parameters == tables + 2 * block == 929_536
    assert found.tokens_per_parameter == pytest.approx(158.193, abs=1e-3)


def test_the_time_of_another_size_is_proportional_to_its_flops():
    """Phases count by their share of updates; word lookups cost nothing."""
    measured = [_measured("mini", 64, 0.1, 10, 1e9)]
    found = planning.predict(BY_NAME["4x256"], {}, HOUR, measured)

    def cost(name, rows, tokens):
        config = configure(BY_NAME[name], {})
        sizes = flops.sizes_of(config, 8192, tokens, sparse_embed_lookup=True)
        return flops.update_flops(flops.passes("electra", sizes), rows)

    cost_4x256 = 0.8 * cost("4x256", 64, 64) + 0.2 * cost("4x256", 32, 128)
    expected = 0.1 * cost_4x256 / cost("mini", 64, 64)
    assert found.update_seconds == pytest.approx(expected)
    assert 0.15 < found.update_seconds < 0.2  # less than twice: the heads


def test_the_nearest_measured_size_counts():
    slow = _measured("demo", 32, 0.5, 10, 1e9)
    fast = _measured("4x256", 64, 0.1, 20, 1e9)
    found = planning.predict(BY_NAME["6x256"], {}, HOUR, [slow, fast])
    alone = planning.predict(BY_NAME["6x256"], {}, HOUR, [fast])
    assert found == alone
    assert found.start_seconds == 2 * 20  # two phases, each traced


def test_no_text_is_read_more_than_ten_times():
    budget = Budget(seconds=3600, text_tokens=1e6)
    found = planning.predict(BY_NAME["demo"], {}, budget, [DEMO])
    assert found.num_steps == 4882  # 10^7 / 2048
    assert 9.99 < found.passes <= 10


def test_memory_is_the_measured_peak_plus_the_difference():
    """Small from Small: 20 bytes a weight cancel, 16 rows are added."""
    measured = [_measured("small", 112, 1.0, 10, 6e9)]
    found = planning.predict(BY_NAME["small"], {}, HOUR, measured)
    in_layers = 14 * (256 + 64) + (4 + 1) * 128
    row = 4 * (12 * 128 * in_layers + 4 * 19 * 30522)
    assert row == pytest.approx(39 * 2**20, rel=0.02)  # as was measured
    records = 128e6
    assert found.memory_bytes == pytest.approx(6e9 + records + 16 * row)
    assert found.num_pieces == 1 and found.fits


@pytest.mark.parametrize(
    "leaves",
    [
        {},
        {"objective": "mlm"},
        {"objective": "script"},
        {"objective": "electric"},
        {"generator_type": "uniform"},
        {"generator_type": "two_tower", "generator_sharing": "none"},
        {"generator_sharing": "none"},
        {"generator_sharing": "token_embeddings"},
        {"generator_sharing": "gradient_disentangled"},
        {"generator_sharing": "all"},
    ],
)
def test_parameters_of_encoders_are_those_of_the_networks(leaves):
    config = tiny.config(vocab_size=tiny.VOCABULARY.size, **leaves)
    model = get_class(config.objective.objective)(config, tiny.VOCABULARY)
    variables = {x.path: x for x in model.trainable_variables}
    encoders = "electra", "generator", "generator_ltr", "generator_rtl"
    sizes = [
        math.prod(variable.shape)
        for path, variable in variables.items()
        if path.split("/")[0] in encoders
    ]
    assert plan_sizes.encoder_parameters(config) == sum(sizes)


def test_a_batch_that_does_not_fit_is_split_into_micro_batches():
    measured = [_measured("small", 128, 1.0, 10, 6e9)]
    rows = 128 * 39 * 2**20
    for free, pieces in ((6.2e9, 1), (6.1e9, 2), (6.2e9 - 0.7 * rows, 4)):
        budget = HOUR._replace(memory_bytes=free)
        found = planning.predict(BY_NAME["small"], {}, budget, measured)
        assert (found.num_pieces, found.fits) == (pieces, True)
        runtime = _planned(found).runtime
        assert runtime.gradient_accumulation_steps == pieces


def test_micro_batches_divide_the_batches_of_all_phases():
    flags = {
        "seq_length_phases": "32:0.3:100,64:0.7:64",
        "max_seq_length": 64,
    }
    config = plan_sizes.configure(BY_NAME["mini"], flags)
    needed = plan_sizes.memory_bytes(config, 4)
    assert plan_sizes.num_micro_batches(config, needed) == 4
    assert plan_sizes.num_micro_batches(config, 0.99 * needed) == 4  # the most


def test_weights_that_do_not_fit_are_not_proposed():
    budget = HOUR._replace(memory_bytes=2.5e9)
    found = [planning.predict(size, {}, budget, [DEMO]) for size in MODEL_SIZES]
    assert [x.fits for x in found[-2:]] == [True, False]  # medium, base
    with pytest.raises(UserError, match=r"4\.0 GB .* Received: 2\.5 GB"):
        planning.choose(found[-1:], budget)


@pytest.mark.parametrize(
    "ratios, chosen",
    [
        ((9000, 500, 73, 72.9, 40), "4x256"),
        ((9000, 28, 72, 10, 5), "mini"),
        ((8, 27, 9, 2, 1), "demo"),
        ((7, 6, 5, 4, 3), "demo"),  # none reads enough
    ],
)
def test_the_largest_size_that_reads_enough_is_chosen(ratios, chosen):
    candidates = list(map(_candidate, SIZE_NAMES, ratios))
    found = planning.choose(candidates, HOUR)
    assert found.size.name == chosen
    assert found.is_enough == (max(ratios) > 7)


def test_a_size_that_does_not_fit_is_not_chosen():
    candidates = [
        _candidate("demo", 1000),
        _candidate("mini", 900),
        _candidate("4x256", 800, fits=False),
    ]
    assert planning.choose(candidates, HOUR).size.name == "mini"


def test_minimum_tokens_come_from_the_paper_and_the_mini_config():
    tokens = 0.0625 * 1_000_000 * 128 * 128
    assert round(tokens / 14e6) == plan_sizes.MIN_TOKENS
    steps = _shipped("mini").training.num_train_steps
    shape = configure(BY_NAME["mini"], {}).model.discriminator(8192)
    mini_ratio = steps * 64 * 64 / plan_sizes.parameters(shape)
    assert int(mini_ratio) == plan_sizes.MIN_MINI_TOKENS


def test_too_short_a_budget_says_how_long_it_must_be():
    planning.check_length(_candidate("demo", 1, num_steps=100))
    # 10 s and 100 updates of 0.25 s are 0.00972 hours
    with pytest.raises(UserError, match="Received: 99. Give --hours=0.0098"):
        planning.check_length(_candidate("demo", 1, num_steps=99))


SETTINGS = ("model", "objective", "training", "phases")
SHIPPED = {
    "demo": ("demo", (*SETTINGS, "optimizer")),
    "mini": ("mini", (*SETTINGS, "masking")),
    "small": ("small", (*SETTINGS, "masking")),
    "base": ("base", (*SETTINGS, "masking")),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_planned_settings_equal_the_shipped_configs(name):
    (size, parts), shipped = SHIPPED[name], _shipped(name)
    steps = shipped.training.num_train_steps
    planned = _planned(_candidate(size, 900, num_steps=steps))
    for part in parts:
        assert getattr(planned, part) == getattr(shipped, part)
    assert planned.optimizer.learning_rate == shipped.optimizer.learning_rate


@pytest.mark.parametrize(
    "steps, warmup",
    [(100, 10), (1000, 100), (4000, 200), (10**5, 1000), (10**7, 10_000)],
)
def test_warm_up_is_a_share_of_the_updates(steps, warmup):
    config = _planned(_candidate("demo", 9, num_steps=steps))
    assert config.optimizer.num_warmup_steps == warmup


def test_log_and_checkpoint_intervals_are_set_by_time():
    runtime = _planned(_candidate("demo", 9)).runtime
    assert runtime.iterations_per_loop == 100  # 30 s / 0.25 s, to one digit
    assert runtime.save_checkpoints_steps == 2000  # 600 s


@pytest.mark.parametrize("size", MODEL_SIZES, ids=SIZE_NAMES)
def test_every_size_makes_a_configuration(size):
    candidate = _candidate(size.name, 9, num_steps=planning.MIN_STEPS)
    config = _planned(candidate, {"packing": "packed"})
    assert config.corpus.is_packed
    assert config.training.num_train_steps == planning.MIN_STEPS


@pytest.mark.parametrize(
    ("phases", "is_shifted"),
    [("32:0.5,128:0.5", True), ("128:1", False), ("128:0.5:8,128:0.5", False)],
)
def test_a_size_shifts_positions_only_if_its_rows_grow(phases, is_shifted):
    config = configure(BY_NAME["mini"], {"seq_length_phases": phases})
    assert config.training.shift_positions == is_shifted


@pytest.mark.parametrize("size", MODEL_SIZES, ids=SIZE_NAMES)
def test_any_size_takes_phases_of_any_length(size):
    config = configure(size, {"seq_length_phases": "32:0.9,1024:0.1"})
    assert config.corpus.max_seq_length == 1024
    shape = config.model.discriminator(4096)
    assert shape.max_position_embeddings == 1024


def test_sizes_are_in_order_of_flops_per_token():
    flops_of = [plan_sizes.mean_flops(configure(x, {})) for x in MODEL_SIZES]
    tokens = [plan_sizes.mean_tokens(configure(x, {})) for x in MODEL_SIZES]
    ratios = [a / b for a, b in zip(flops_of, tokens, strict=True)]
    assert ratios == sorted(ratios)


def test_a_timed_update_takes_at_most_the_limit(monkeypatch):
    """Base has 256 rows, of which a few take 20 seconds here."""
    monkeypatch.setattr(planning, "MAX_UPDATE_SECONDS", 20.0)
    base = configure(BY_NAME["base"], {})
    predicted = planning.predict(BY_NAME["base"], {}, HOUR, [DEMO])
    rows = planning.rows_to_measure(base, predicted.update_seconds)
    seconds = (
        0.05
        * plan_sizes.mean_flops(configure(BY_NAME["base"], {}, rows))
        / plan_sizes.mean_flops(configure(BY_NAME["demo"], {}, 32))
    )
    assert seconds <= 20.0 < 2 * seconds and math.log2(rows).is_integer()
    assert planning.rows_to_measure(base, 0.0) == 256


def test_parameters_are_those_of_the_encoder():
    encoder = tiny.encoder()
    built = sum(math.prod(v.shape) for v in encoder.trainable_variables)
    assert plan_sizes.parameters(tiny.BERT) == built
