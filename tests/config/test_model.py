import pytest

from electra_tf.config.model import BertConfig, ModelConfig
from electra_tf.util.errors import UserError

_TINY = {
    "vocab_size": 100,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "embedding_size": 4,
}


def _shape(config):
    return (
        config.hidden_size,
        config.num_hidden_layers,
        config.num_attention_heads,
        config.intermediate_size,
        config.embedding_size,
    )


@pytest.mark.parametrize(
    ("model_size", "fraction", "discriminator", "generator"),
    [
        ("small", 0.25, (256, 12, 4, 1024, 128), (64, 12, 1, 256, 128)),
        ("base", 1 / 3, (768, 12, 12, 3072, 768), (256, 12, 4, 1024, 768)),
        ("large", 0.25, (1024, 24, 16, 4096, 1024), (256, 24, 4, 1024, 1024)),
    ],
)
def test_sizes_are_those_of_the_paper(
    model_size, fraction, discriminator, generator
):
    config = ModelConfig(model_size=model_size, generator_hidden_size=fraction)
    assert _shape(config.discriminator(30522)) == discriminator
    assert _shape(config.generator(30522)) == generator
    assert config.generator(30522).vocab_size == 30522


def test_heads_and_intermediate_size_follow_a_given_hidden_size():
    base = ModelConfig(model_size="base", hidden_size=144)
    assert _shape(base.discriminator(9)) == (144, 12, 2, 576, 144)
    small = ModelConfig(hidden_size=320)
    assert _shape(small.discriminator(9)) == (320, 12, 5, 1280, 128)


def test_absolute_sizes_of_the_generator_win_over_fractions():
    config = ModelConfig(
        generator_hidden_size=1.0,
        generator_width=96,
        generator_num_hidden_layers=3,
        generator_num_attention_heads=2,
        generator_intermediate_size=100,
    )
    assert _shape(config.generator(9)) == (96, 3, 2, 100, 128)


def test_heads_that_do_not_fit_are_refused_whatever_the_width():
    width = 10**15 + 1
    with pytest.raises(UserError, match="must divide `hidden_size`.* 1, "):
        ModelConfig(hidden_size=width, num_attention_heads=2)


def test_fraction_of_layers_is_rounded():
    config = ModelConfig(num_hidden_layers=3, generator_layers=0.5)
    assert config.generator(9).num_hidden_layers == 2


def test_embeddings_of_an_unshared_generator_have_its_width():
    config = ModelConfig(generator_sharing="none")
    assert config.generator(9).embedding_size == 64


def test_generator_that_shares_all_has_the_shape_of_the_discriminator():
    config = ModelConfig(generator_sharing="all", hidden_dropout_prob=0.3)
    assert config.generator(9) == config.discriminator(9)


def test_generator_takes_the_rest_from_the_discriminator():
    config = ModelConfig(
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.2,
        max_position_embeddings=64,
        initializer_range=0.05,
        attention_initializer="neighbours",
    )
    for shape in (config.discriminator(9), config.generator(9)):
        assert shape.hidden_dropout_prob == 0.0
        assert shape.attention_probs_dropout_prob == 0.2
        assert shape.max_position_embeddings == 64
        assert shape.initializer_range == 0.05
        assert shape.attention_initializer == "neighbours"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_size": "tiny"}, "one of small, base, large.*'tiny'"),
        (
            {"hidden_size": 20, "num_attention_heads": 3},
            "must divide .*=3, hidden_size=20, whose .* are 1, 2, 4, 5, 10, 20",
        ),
        ({"hidden_size": 0}, "`hidden_size` must be at least 1"),
        ({"generator_layers": 0.0}, r"`generator_layers` must be in \(0, 1\]"),
        ({"generator_layers": 0.01}, "In the generator, `num_hidden_layers`"),
        (
            {"model_size": "large", "generator_hidden_size": 0.3},
            "In the generator, .*hidden_size=307.*--generator_width",
        ),
        (
            {"generator_sharing": "all", "generator_width": 64},
            "`generator_width` must be left out with generator_sharing=all",
        ),
        ({"hidden_dropout_prob": 1.0}, r"must be in \[0, 1\)"),
        ({"initializer_range": float("nan")}, "`initializer_range`"),
        ({"attention_initializer": "learned"}, "truncated_normal, neighbours"),
        (
            {"attention_initializer": "neighbours", "embedding_size": 5},
            "`embedding_size` must be even",
        ),
    ],
)
def test_values_that_do_not_fit_are_refused(values, message):
    with pytest.raises(UserError, match=message):
        ModelConfig(**values)


def test_config_comes_back_from_a_dictionary():
    config = BertConfig(**_TINY, attention_initializer="neighbours")
    assert BertConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("change", "named"), [({"depth": 3}, "depth"), (None, "vocab_size")]
)
def test_unknown_and_missing_fields_are_named(change, named):
    values = _TINY | change if change else {"hidden_size": 8}
    with pytest.raises(UserError, match=named):
        BertConfig.from_dict(values)
