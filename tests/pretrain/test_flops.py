"""FLOPs against the original's program, and against counts by hand."""

import ast
import dataclasses
import json
import pathlib

import pytest
import tiny

from electra_tf import flops_computation
from electra_tf.config.model import BertConfig, ModelConfig
from electra_tf.config.objectives import get_class
from electra_tf.flops_computation import inference_flops
from electra_tf.pretrain import flops

GOLDEN = json.loads(
    (pathlib.Path(__file__).parents[1] / "golden/flops.json").read_text()
)
# Arguments of the original's program: network, vocabulary size, tokens,
# predicted positions.
T5 = ModelConfig(
    model_size="large", intermediate_size=65_536, num_attention_heads=128
)
PARTS = {
    "small": (ModelConfig(), 30_522, 128, 20),
    "base": (ModelConfig(model_size="base"), 30_522, 512, 80),
    "large": (ModelConfig(model_size="large"), 30_522, 512, 80),
    "sparse": (ModelConfig(), 30_522, 128, 20),
    "decoder": (T5, 32_000, 512, 80),
}
TINY = BertConfig(
    vocab_size=10,
    hidden_size=4,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=6,
    embedding_size=3,
)
NARROW = dataclasses.replace(TINY, hidden_size=2, intermediate_size=8)
# One row of TINY with 5 tokens, counted by hand. Each token in each layer:
ATTENTION = (
    3 * (2 * 4 * 4 + 4)  # query, key, value
    + 5 * (2 * 4)  # products with 5 keys
    + 5 * 2 * (1 + 5 + 4)  # scale, softmax, dropout in 2 heads
    + 5 * (2 * 4)  # weighted sum of 5 values
    + (2 * 4 * 4 + 4)  # output
    + 4 * (4 + 1)  # dropout, residual
    + 5  # layer normalisation, once for the token
)
FEED_FORWARD = (
    (2 * 4 * 6 + 6)
    + 6 * 8  # GELU
    + (2 * 6 * 4 + 4)
    + 4 * (4 + 1 + 5)  # dropout, residual, layer normalisation
)
# Each token: words, positions and segments, two sums, layer normalisation,
# dropout, projection.
EMBEDDING = 2 * 3 * 10 + 2 * 3 * (5 + 2) + 3 * (2 + 5 + 4) + (2 * 3 * 4 + 4)
ENCODER = 5 * (2 * (ATTENTION + FEED_FORWARD) + EMBEDDING)
# Each predicted word: dense, GELU, layer normalisation; logits, softmax, loss.
WORD = (2 * 4 * 3 + 3) + 3 * (8 + 5) + 10 * (2 * 3 + 5 + 2)
# Each choice among words: dense, GELU, layer normalisation; and each word of 4:
# product, softmax, loss.
CHOICE = (2 * 4 * 3 + 3) + 3 * (8 + 5) + 4 * (2 * 3 + 5 + 2)
# Each classified token: dense, GELU, logit.
DECISION = (2 * 4 * 4 + 4) + 4 * 8 + 2 * 4


FLAGS = {
    "hidden_size": 4,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 6,
    "embedding_size": 3,
    "generator_hidden_size": 0.5,
    "generator_num_attention_heads": 2,
    "hidden_dropout_prob": 0.1,
    "max_seq_length": 5,
    "mask_prob": 0.4,  # two slots
}
TWIN = {"generator_hidden_size": 1.0}
# Its feed-forward layers have 4 * 4 units, 10 more than those of TINY.
TWIN_ENCODER = ENCODER + 5 * 2 * 10 * ((2 * 4 + 1) + 8 + 2 * 4)
GENERATOR = flops.Pass(network=NARROW, num_tokens=5, num_predictions=2)
DISCRIMINATOR = 2 * (ENCODER + 5 * DECISION)


def _row(objective="electra", is_sparse=False, **leaves):
    """Returns the FLOPs of an update of one row, of TINY and NARROW."""
    config = tiny.config(objective=objective, **FLAGS | leaves)
    sizes = flops.Sizes(config, 10, 5, is_sparse)
    return flops.update_flops(get_class(objective).passes(sizes), 1)


@pytest.mark.parametrize("name", PARTS)
def test_flops_of_parts_equal_the_originals(name):
    model, vocab_size, num_tokens, num_predictions = PARTS[name]
    network = model.discriminator(vocab_size)
    of_t5 = {"attention_width": 128 * 128, "num_attentions": 2}
    network_pass = flops.Pass(
        network=network,
        num_tokens=num_tokens,
        num_decisions=num_tokens,
        sparse_embed_lookup=name == "sparse",
        **(of_t5 if name == "decoder" else {}),
    )
    ours = {
        "block": network_pass.block(),
        "emb_in": network_pass.embedding(),
        "emb_out": network_pass.word_head(num_predictions, vocab_size),
        "binary": network_pass.binary_head(),
    }
    assert ours == GOLDEN["parts"][name]


@pytest.mark.parametrize("name", ["small", "base", "large", "base128"])
def test_inference_is_that_of_the_original(name):
    size = name.removesuffix("128")
    network = ModelConfig(model_size=size).discriminator(30_522)
    num_tokens = 128 if name in ("small", "base128") else 512
    assert inference_flops(network, num_tokens) == GOLDEN["infer"][name]


@pytest.mark.parametrize("call", GOLDEN["generic"])
def test_training_is_that_of_the_original(call):
    hidden, layers, width, _, rows, steps, is_tied, others = ast.literal_eval(
        call
    )
    model = ModelConfig(
        model_size="base",
        hidden_size=hidden,
        num_hidden_layers=layers,
        embedding_size=others.get("e"),
        generator_hidden_size=width / hidden,
        generator_sharing="embeddings" if is_tied else "none",
    )
    ours = flops_computation._electra(model, rows, steps, others.get("s", 512))
    assert ours == pytest.approx(GOLDEN["generic"][call], rel=1e-12)


def test_a_tiny_network_by_hand():
    assert inference_flops(TINY, 5) == ENCODER + 5 * DECISION
    mlm = flops.Pass(network=TINY, num_tokens=5, num_predictions=2)
    assert mlm.forward() == ENCODER + 2 * WORD
    assert _row("mlm") == mlm.update() == 2 * (ENCODER + 2 * WORD)


@pytest.mark.parametrize(
    ("leaves", "generator"),
    [
        ({}, GENERATOR.update()),
        (
            {
                "freeze_generator": True,
                "generator_sharing": "gradient_disentangled",
            },
            GENERATOR.forward(),
        ),
        ({"generator_type": "uniform"}, 0),
        ({"generator_type": "unigram"}, 0),
        (TWIN, 2 * (TWIN_ENCODER + 2 * WORD)),
        (
            TWIN | {"generator_type": "two_tower"},
            # Four more inputs of the dense layer.
            2 * (2 * TWIN_ENCODER + 5 * (WORD + 2 * 4 * 3)),
        ),
    ],
)
def test_electra_costs_its_generator_and_its_discriminator(leaves, generator):
    assert _row(**leaves) == generator + DISCRIMINATOR


def test_other_objectives_are_sums_of_passes():
    generator = GENERATOR.update()
    assert _row("script") == 2 * (2 * ENCODER + (2 + 5) * WORD)
    assert _row("replace_mlm") == generator + 2 * (ENCODER + 2 * WORD)
    every = 2 * (ENCODER + 5 * (WORD + DECISION))
    assert _row("all_tokens_mlm") == generator + every
    scoring = flops.Pass(
        network=NARROW, num_tokens=5, num_predictions=5
    ).forward()
    # <neither>, 2 words and the truth: the choice is among 3 of these 4.
    mc_bert = generator + scoring + 2 * (ENCODER + 5 * CHOICE)
    assert _row("mc_bert", num_candidates=3) == mc_bert
    layer = 5 * (ATTENTION + FEED_FORWARD)
    both = ENCODER + layer + 5 * DECISION + 2 * CHOICE
    assert _row("teams", num_candidates=4) == generator + 2 * both
    encoder = 2 * (2 * ENCODER + 2 * WORD + 5 * DECISION)
    assert _row("coco_lm") == generator + GENERATOR.forward() + encoder
    assert _row("coco_lm", hidden_dropout_prob=0.0) == generator + encoder


LENGTH, ROWS = 16, 8  # of tiny.config


def _passes(config, length=LENGTH):
    """Returns the passes of generator and discriminator over a row."""
    slots = config.masking.max_predictions_per_seq(length)
    generator = flops.Pass(
        network=config.model.generator(60),
        num_tokens=length,
        num_predictions=slots,
    )
    discriminator = flops.Pass(
        network=config.model.discriminator(60),
        num_tokens=length,
        num_decisions=length,
    )
    return generator, discriminator


def test_training_costs_the_passes_of_all_rows():
    config = tiny.config()
    row = sum(x.update() for x in _passes(config))
    for step in (0, 1, 7, 20):
        assert flops.training_flops(config, 60, step) == step * ROWS * row


def test_each_stage_costs_what_it_trains():
    config = tiny.config(**tiny.TWO_STAGE)
    generator, discriminator = (x.forward() for x in _passes(config))
    for step in (3, 6, 15):
        first, second = min(step, 10), max(0, step - 10)
        expected = ROWS * (
            first * 2 * generator + second * (generator + 2 * discriminator)
        )
        assert flops.training_flops(config, 60, step) == expected
