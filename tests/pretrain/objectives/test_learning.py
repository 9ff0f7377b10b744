"""Each objective learns a tiny language, in long runs with wide bounds."""

import pytest
import tiny
import tiny_language

DISC = {"disc_loss": 0.6}
# Variant -> updates, flags, upper bounds of each loss's last mean as a share of
# its first, and lower bounds of metrics on other rows.
RUNS = {
    "all_tokens_mlm": (500, {}, {"corrector_loss": 0.2}, {}),
    "coco_lm": (
        # The language has ten rows: some in a group are the same.
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
    # Noise of an untrained generator is told from the language.
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
COPY_METRICS = {
    "all_tokens_mlm": ("corrector_accuracy", 0.5),
    "mc_bert": ("selection_accuracy", 0.3),
}
"""Variant -> accuracy that counts copies, and its least share of the rest."""


@pytest.mark.slow
@pytest.mark.parametrize("variant", RUNS)
def test_each_objective_learns_a_tiny_language(variant, monkeypatch):
    num_steps, leaves, shares, bounds = RUNS[variant]
    if any(name.startswith("sentence") for name in shares) or variant == "mlm":
        monkeypatch.setattr(tiny_language, "rows", tiny_language.pairs)
    model, means = tiny_language.train(
        num_steps, **tiny.VARIANTS[variant] | leaves
    )
    for name, share in shares.items():
        first, last = means[name][:5].mean(), means[name][-20:].mean()
        assert last < share * first, name
    metrics = tiny_language.evaluate(model)
    if variant in COPY_METRICS:
        name, corrected = COPY_METRICS[variant]
        copied = 1 - metrics["replaced_share"]
        bounds = {**bounds, name: corrected + (1 - corrected) * copied}
    for name, bound in bounds.items():
        assert metrics[name] > bound, name
    if variant == "two_stage":
        likelihood = means["masked_lm_loss"]
        assert likelihood[180:200].mean() < 0.6 * likelihood[:5].mean()
    if variant == "electra_15":
        assert metrics["masked_lm_loss"] < 2.0  # by chance 4.1
