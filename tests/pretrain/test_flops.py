"""FLOPs against the original's program, and objectives as sums of passes."""

import dataclasses
import json
import pathlib

import pytest
import tiny

from electra_tf.config.model import ModelConfig
from electra_tf.config.objectives import get_class
from electra_tf.flops_computation import inference_flops
from electra_tf.pretrain import flops

GOLDEN = json.loads(
    (pathlib.Path(__file__).parents[1] / "golden/flops.json").read_text()
)


def test_sparse_lookups_and_inference_cost_what_the_original_says():
    network = ModelConfig().discriminator(30_522)
    sparse = flops.Pass(
        network=network, num_tokens=128, sparse_embed_lookup=True
    )
    assert sparse.embedding() == GOLDEN["parts"]["sparse"]["emb_in"]
    assert inference_flops(network, 128) == GOLDEN["infer"]["small"]


FLAGS = {
    "hidden_size": 4,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "embedding_size": 3,
    "generator_hidden_size": 0.5,
    "generator_num_attention_heads": 2,
    "hidden_dropout_prob": 0.1,
    "max_seq_length": 5,
    "mask_prob": 0.4,  # two slots
}
TWIN = {"generator_hidden_size": 1.0}
MODEL = tiny.config(**FLAGS).model
MAIN = flops.Pass(network=MODEL.discriminator(10), num_tokens=5)
GENERATOR = flops.Pass(
    network=MODEL.generator(10), num_tokens=5, num_predictions=2
)
ENCODER = MAIN.forward()
WORD, CHOICE = MAIN.word_head(1, 10), MAIN.word_head(1, 4)
DETECTION = dataclasses.replace(MAIN, num_decisions=5).forward() - ENCODER


def _row(objective="electra", **leaves):
    """Returns the FLOPs of an update of one row."""
    config = tiny.config(objective=objective, **FLAGS | leaves)
    sizes = flops.Sizes(config, 10, 5)
    return flops.update_flops(get_class(objective).passes(sizes), 1)


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
        ({"generator_type": "unigram"}, 0),
        (TWIN, 2 * (ENCODER + 2 * WORD)),
        (
            TWIN | {"generator_type": "two_tower"},
            # Four more inputs of the dense layer.
            2 * (2 * ENCODER + 5 * (WORD + 2 * 4 * 3)),
        ),
    ],
)
def test_electra_costs_its_generator_and_its_discriminator(leaves, generator):
    assert _row(**leaves) == generator + 2 * (ENCODER + DETECTION)


def test_other_objectives_are_sums_of_passes():
    generator = GENERATOR.update()
    assert _row("mlm") == 2 * (ENCODER + 2 * WORD)
    assert _row("script") == 2 * (2 * ENCODER + (2 + 5) * WORD)
    assert _row("replace_mlm") == generator + 2 * (ENCODER + 2 * WORD)
    every = 2 * (ENCODER + 5 * WORD + DETECTION)
    assert _row("all_tokens_mlm") == generator + every
    scoring = dataclasses.replace(GENERATOR, num_predictions=5).forward()
    # <neither>, 2 words and the truth: the choice is among 3 of these 4.
    mc_bert = generator + scoring + 2 * (ENCODER + 5 * CHOICE)
    assert _row("mc_bert", num_candidates=3) == mc_bert
    both = ENCODER + MAIN.block() + DETECTION + 2 * CHOICE
    assert _row("teams", num_candidates=4) == generator + 2 * both
    encoder = 2 * (2 * ENCODER + 2 * WORD + DETECTION)
    assert _row("coco_lm") == generator + GENERATOR.forward() + encoder
    assert _row("coco_lm", hidden_dropout_prob=0.0) == generator + encoder


def test_each_stage_costs_what_it_trains():
    config = tiny.config(**tiny.TWO_STAGE)
    sizes = flops.Sizes(config, 60, 16)
    passes = get_class("two_stage").passes(sizes)
    generator, discriminator = (x.forward() for x in passes.values())
    for step in (3, 10, 15):
        first, second = min(step, 10), max(0, step - 10)
        row = 2 * first * generator + second * (generator + 2 * discriminator)
        assert flops.training_flops(config, 60, step) == 8 * row
