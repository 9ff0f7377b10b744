"""Acceptability: whether frozen states tell a sentence from a perturbed one.

Each sentence is read in its original and its perturbed form
(`perturbed_sentences`), and represented by the mean of its words' states. A
pair is left out if either form is longer than a row. For each layer, a linear
probe is fitted on --dev to tell the two forms apart, and evaluated on --test.
Layer 0 holds words and positions, and no context.

A discriminator was trained on a similar task; a masked language model was not.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from electra_tf.analysis.examples import perturbed_sentences, tagged_sentences
from electra_tf.analysis.examples.perturbed_sentences import (
    PERTURBATIONS,
    PerturbedPair,
)
from electra_tf.analysis.reporting.reports import Report
from electra_tf.analysis.representations import hidden_states, probe_findings
from electra_tf.analysis.representations.hidden_states import LayerReader
from electra_tf.analysis.representations.layers import MODEL
from electra_tf.analysis.representations.probe_findings import (
    Labelled,
    ProbeFindings,
)
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util import console
from electra_tf.util.errors import UserError

MAX_TRAINING_PAIRS = 5_000
"""Greatest number of training sentences of a probe, each in both forms."""

_LABELS = ("original", "perturbed")


def run(config: AnalysisConfig) -> Report:
    """Probes the layers of a model and its twin for acceptability."""
    splits = {split: _sentences(config, split) for split in ("dev", "test")}
    made = {name: _pairs(name, splits, config) for name in PERTURBATIONS}
    pairs = {name: found for name, found in made.items() if found}
    if not pairs:
        raise UserError(
            "--dev and --test must have sentences that can be perturbed, by "
            f"{' or '.join(PERTURBATIONS)}. Received: none. Give more."
        )
    networks = hidden_states.load(config)
    readers = [LayerReader(network) for network in networks.values()]
    sizes = {k: len(x.encoder.blocks) + 1 for k, x in networks.items()}
    found = {
        name: probe_findings.of_balanced_labels(
            *(_read(split, readers, config) for split in of_splits),
            sizes,
            config,
        )
        for name, of_splits in pairs.items()
    }
    return _report(found)


def _sentences(
    config: AnalysisConfig, split: str
) -> list[perturbed_sentences.Words]:
    """Reads the sentences of a split, in random order."""
    found = tagged_sentences.read_words(config, split)
    order = np.random.default_rng(config.seed).permutation(len(found))
    return [found[i] for i in order]


def _pairs(
    name: str,
    splits: Mapping[str, Sequence[perturbed_sentences.Words]],
    config: AnalysisConfig,
) -> tuple[list[PerturbedPair], list[PerturbedPair]] | None:
    """Makes the training and the test pairs of a perturbation, if it
    applies."""
    pairs_by_split = {}
    for split, sentences in splits.items():
        random = np.random.default_rng(config.seed)
        pairs_by_split[split] = PERTURBATIONS[name](sentences, random)
        if not pairs_by_split[split]:
            console.warn(
                f"{name} is left out: it applies to none of the "
                f"{len(sentences)} sentences of --{split}."
            )
            return None
    return pairs_by_split["dev"][:MAX_TRAINING_PAIRS], pairs_by_split["test"]


def _read(
    pairs: Sequence[PerturbedPair],
    readers: Sequence[LayerReader],
    config: AnalysisConfig,
) -> Labelled:
    """Computes the states of both sentences of the pairs that fit in a row."""
    kept = hidden_states.fitting(readers, pairs)
    sentences = [words for i in kept for words in pairs[i]]
    groups = hidden_states.read(
        readers, sentences, batch_size=config.batch_size
    )
    index_parts, layers = zip(*map(_mean_states, groups), strict=True)
    indices = np.concatenate(index_parts)
    return Labelled(
        indices // 2,
        np.array(_LABELS)[indices % 2],
        [np.concatenate(parts) for parts in zip(*layers, strict=True)],
    )


def _mean_states(
    group: hidden_states.WordStates,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Averages the states of the words of each sentence, [sentences, H]."""
    indices, starts, sizes = np.unique(
        group.sentences, return_index=True, return_counts=True
    )
    layers = [layer for network in group.states for layer in network]
    sums = (np.add.reduceat(layer, starts) for layer in layers)
    return indices, [total / sizes[:, None] for total in sums]


def _report(found: Mapping[str, ProbeFindings]) -> Report:
    return Report(
        what="acceptability",
        headline={
            f"{name} accuracy, last layer": x.accuracies[MODEL][-1].value
            for name, x in found.items()
        },
        results={"probes": found},
        tables=[
            probe_findings.table(name, x, items="sentences")
            for name, x in found.items()
        ],
        plots=probe_findings.plots(found),
    )
