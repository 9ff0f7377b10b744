"""Bias of a discriminator by part of speech.

Each token has the Universal Dependencies tag of its word. For each tag:

    false positives   share of the tokens of the original text that are flagged,
                      P(replaced) > 0.5
    true positives    share of the replaced tokens, replaced as in training,
                      that are flagged; the tag is the original word's
    generator error   share of the masked tokens for which the generator's
                      likeliest token is not the original
    AUC               of P(replaced), replaced tokens against the others, in
                      the text with tokens replaced: it depends on no threshold
"""

import functools
from typing import Any

import numpy as np

from electra_tf.analysis import examples
from electra_tf.analysis.examples import UPOS
from electra_tf.analysis.replaced_tokens import ReplacedTokens, replace_tokens
from electra_tf.analysis.report import Report, Table, bootstrap, wilson
from electra_tf.analysis.scorer import Scorer, score_texts
from electra_tf.analysis.scores import Items, auc, word_of_tokens
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util.errors import UserError


def run(config: AnalysisConfig) -> Report:
    texts = examples.read_texts(config, "test")
    for text in texts:
        if not text.tags:
            raise UserError(f"{text.path} has no parts of speech.")
    scorer = Scorer.from_config(config)
    if scorer.networks.generator is None:
        raise UserError(f"{config.model} has no generator: set --generator.")
    strings = [text.text for text in texts]
    scores = [*score_texts(scorer, strings, ["discriminator"])]
    replaced = replace_tokens(scorer, strings, config.seed)
    sizes = np.bincount(replaced.text, minlength=len(texts))  # some are cut
    tags, is_flagged = [], []
    for text, one, size in zip(texts, scores, sizes, strict=True):
        word_of_token = word_of_tokens(text, one)[:size]
        tags += [text.tags[word] for word in word_of_token]
        is_flagged += [token.is_flagged for token in one.tokens[:size]]
    figures = measure(config, np.array(tags), np.array(is_flagged), replaced)
    title = f"Tokens of {len(texts):,} texts by part of speech; 95 % intervals"
    results = {"num_texts": len(texts), "tags": figures}
    return Report(results, [Table(title, figures)])


def measure(
    config: AnalysisConfig,
    tags: np.ndarray,
    is_flagged: np.ndarray,
    replaced: ReplacedTokens,
) -> dict[str, dict[str, Any]]:
    """Computes the figures of each tag that occurs, and of all together."""
    figures = {}
    for tag in ("all", *(x for x in UPOS if x in tags)):
        chosen = np.full(len(tags), True) if tag == "all" else tags == tag
        logits, is_replaced, is_masked, is_predicted, text = (
            x[chosen] for x in replaced
        )
        rates = {
            "false_positives": is_flagged[chosen],
            "true_positives": logits[is_replaced] > 0,
            "generator_error": ~is_predicted[is_masked],
        }
        items = Items(logits, is_replaced, text)
        (area,) = bootstrap(
            functools.partial(auc, items), items.num_texts, config
        )
        figures[tag] = {
            "tokens": len(text),
            "replaced": int(is_replaced.sum()),
            **{name: wilson(x.sum(), len(x)) for name, x in rates.items()},
            "AUC": area,
        }
    return figures
