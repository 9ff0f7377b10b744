"""Each objective learns a tiny language; long, and each bound a wide one."""

import pytest
import tiny
import tiny_language

DISC = {"disc_loss": 0.6}
# Name -> updates, flags, the share of a loss's first mean that its last must
# be below, and metrics on other rows that must be above.
RUNS = {
    "all_tokens_mlm": (500, {}, {"corrector_loss": 0.2}, {}),
    "coco_lm": (
        # There are ten rows in the language: some in a group are the same.
        300,
        {"contrast_group": 8, "contrast_temperature": 0.1},
        {**DISC, "corrector_loss": 0.6, "contrast_loss": 0.6},
        {"disc_auc": 0.9},
    ),
    "electra of a unigram generator": (
        150,
        {"temperature": 1.0, "temperature_end": None, "top_k": 0},
        {},
        {"disc_auc": 0.9},
    ),
    "electra disentangled": (
        300,
        {"temperature": 1.5, "temperature_end": 1.0},
        {},
        {"disc_auc": 0.9},
    ),
    "electra_15": (600, {}, {"disc_loss": 0.5}, {"disc_auc": 0.9}),
    "electra of neighbours' segments": (
        400,
        {"sentence_weight": 5.0},
        {"sentence_loss": 0.5},
        {"sentence_accuracy": 0.85, "disc_auc": 0.9},
    ),
    # Noise that learns nothing is told from the language.
    "electric": (300, {"gen_weight": 0}, {"disc_loss": 0.3}, {"disc_auc": 0.9}),
    "mc_bert": (
        250,
        {"num_candidates": 6, "selection_weight": 50.0},
        {"selection_loss": 0.2},
        {"disc_auc": 0.9},
    ),
    "mlm": (300, {}, {"masked_lm_loss": 0.2}, {"masked_lm_accuracy": 0.9}),
    "mlm_sentence": (
        300,
        {},
        {"masked_lm_loss": 0.2, "sentence_loss": 0.2},
        {"masked_lm_accuracy": 0.9, "sentence_accuracy": 0.9},
    ),
    "replace_mlm": (
        300,
        {},
        {"corrector_loss": 0.3},
        {"corrector_accuracy": 0.9},
    ),
    "script": (
        400,
        {"disc_weight": 50.0},
        {**DISC, "masked_lm_loss": 0.6},
        {"disc_auc": 0.9},
    ),
    "teams": (
        250,
        {"disc_weight": 20, "num_candidates": 4},
        {"disc_loss": 0.4, "selection_loss": 0.4},
        {"disc_auc": 0.9, "selection_accuracy": 0.9},
    ),
    "two_stage": (
        600,
        {"embedding_size": 32, "generator_steps": 200},
        {},
        {"disc_auc": 0.9},
    ),
}
COPYING = {
    "all_tokens_mlm": ("corrector_accuracy", 0.5),
    "mc_bert": ("selection_accuracy", 0.3),
}
"""Accuracy of what may copy, and the share of the rest that must be right."""


@pytest.mark.slow
@pytest.mark.parametrize("variant", RUNS)
def test_it_learns_a_tiny_language(variant, monkeypatch):
    num_steps, leaves, shares, least = RUNS[variant]
    if any(name.startswith("sentence") for name in shares) or variant == "mlm":
        monkeypatch.setattr(tiny_language, "rows", tiny_language.pairs)
    model, means = tiny_language.train(
        num_steps, **tiny.VARIANTS[variant] | leaves
    )
    for name, share in shares.items():
        first, last = means[name][:5].mean(), means[name][-20:].mean()
        assert last < share * first, name
    metrics = tiny_language.evaluate(model)
    if variant in COPYING:
        name, right = COPYING[variant]
        copying = 1 - metrics["replaced_share"]
        least = {**least, name: right + (1 - right) * copying}
    for name, bound in least.items():
        assert metrics[name] > bound, name
    if variant == "two_stage":
        likelihood = means["masked_lm_loss"]
        assert likelihood[180:200].mean() < 0.6 * likelihood[:5].mean()
    if variant == "electra_15":
        assert metrics["masked_lm_loss"] < 2.0  # by chance 4.1
