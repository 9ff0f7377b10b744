import pytest

from electra_tf.config.optimizer import FinetuningOptimizerConfig


@pytest.mark.parametrize(
    ("hidden_size", "rates"),
    [
        *((width, (1e-3, 0.8)) for width in (16, 128, 255)),  # not in the paper
        *((width, (3e-4, 0.8)) for width in (256, 512)),
        (768, (1e-4, 0.8)),
        (1024, (5e-5, 0.9)),
    ],
)
def test_rates_are_those_of_table_7_by_width(hidden_size, rates):
    config = FinetuningOptimizerConfig()
    assert config.rates(hidden_size) == rates
    assert config.weight_decay_rate == 0 and config.warmup_proportion == 0.1
    small = FinetuningOptimizerConfig(model_size="small")
    assert small.rates(hidden_size) == (3e-4, 0.8)


def test_given_rates_win():
    config = FinetuningOptimizerConfig(model_size="large", learning_rate=1e-3)
    assert config.rates(256) == (1e-3, 0.9)
