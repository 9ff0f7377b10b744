"""Copies: whether the state of a word tells that the word occurs again later.

A word is read in a sentence with a copy of it in a later place, and with a word
of another sentence in that place (`copied_words`). For each layer a linear
probe is fitted on --dev to tell the two apart from the state of the first word,
and evaluated on --test. Layer 0 holds the word and its position, which are the
same in both: its accuracy is 0.5.

Of a discriminator also the effect of the copy is measured on its logit for the
word, if the word is that of the sentence and if it is one of another sentence.
A word that occurs elsewhere in a text is seldom a replacement.

Letters in shapes: S layers of a network, E examples, H hidden.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from electra_tf.analysis.examples import copied_words, tagged_sentences
from electra_tf.analysis.examples.copied_words import CopiedWord
from electra_tf.analysis.reporting.reports import Report, Table
from electra_tf.analysis.reporting.statistics import Interval, bootstrap
from electra_tf.analysis.representations import hidden_states, probe_findings
from electra_tf.analysis.representations.hidden_states import LayerReader
from electra_tf.analysis.representations.layers import MODEL
from electra_tf.analysis.representations.probe_findings import (
    Labelled,
    ProbeFindings,
)
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.model.networks import ElectraDiscriminator
from electra_tf.util.errors import UserError

MAX_TRAINING_EXAMPLES = 5_000
"""Greatest number of training examples of a probe, each with and without a
copy."""

_TASK = "copied word"
_WORDS = ("original", "foreign")
_LABELS = ("unique", "copied")

Effects = dict[str, dict[str, Interval]]
"""Network -> word, one of `_WORDS` -> what a copy adds to the logit."""


def run(config: AnalysisConfig) -> Report:
    """Probes the layers of a model and its twin for copies of a word."""
    made = {split: _examples(split, config) for split in ("dev", "test")}
    networks = hidden_states.load(config)
    readers = [LayerReader(network) for network in networks.values()]
    train, test = (
        dict(zip(networks, _read(*each, readers, config), strict=True))
        for each in ((made["dev"], _WORDS[:1]), (made["test"], _WORDS))
    )
    logits = {
        name: _logits(network, test[name][-1])
        for name, network in networks.items()
        if isinstance(network, ElectraDiscriminator)
    }
    found = probe_findings.of_balanced_labels(
        _labelled(train.values()),
        _labelled(test.values()),
        {name: len(states) for name, states in train.items()},
        config,
    )
    return _report(found, logits, config)


def _examples(split: str, config: AnalysisConfig) -> list[CopiedWord]:
    """Makes the examples of a split, in random order."""
    found = tagged_sentences.read_words(config, split)
    random = np.random.default_rng(config.seed)
    sentences = [found[i] for i in random.permutation(len(found))]
    examples = copied_words.make(sentences, random)
    if not examples:
        raise UserError(
            f"--{split} must have sentences with two words that occur once, "
            f"{copied_words.MIN_DISTANCE} words apart. Received: none of "
            f"{len(sentences):,}. Give more."
        )
    return examples[:MAX_TRAINING_EXAMPLES] if split == "dev" else examples


def _read(
    examples: Sequence[CopiedWord],
    words: Sequence[str],
    readers: Sequence[LayerReader],
    config: AnalysisConfig,
) -> list[np.ndarray]:
    """Computes the states of words.

    Shapes: returns [S, E, K, 2, H].
    """
    versions = [
        [*itertools.chain.from_iterable(getattr(x, name) for name in words)]
        for x in examples
    ]
    kept = hidden_states.fitting(readers, versions)
    sentences = [sentence for i in kept for sentence in versions[i]]
    indices = np.repeat([examples[i].index for i in kept], len(versions[0]))
    groups = hidden_states.read(
        readers, sentences, batch_size=config.batch_size
    )
    found = hidden_states.join(
        [x.select(x.words == indices[x.sentences]) for x in groups]
    )
    shape = -1, len(words), 2
    return [x.reshape(len(x), *shape, x.shape[-1]) for x in found.states]


def _labelled(states: Iterable[np.ndarray]) -> Labelled:
    """Labels original words, from the states of each network."""
    layers = [
        x[:, 0].reshape(-1, x.shape[-1]) for of_one in states for x in of_one
    ]
    examples = np.arange(len(layers[0]) // 2)
    return Labelled(
        np.repeat(examples, 2), np.tile(_LABELS, len(examples)), layers
    )


def _logits(network: ElectraDiscriminator, states: np.ndarray) -> np.ndarray:
    """Computes the logits of words, [E, 2, 2], from last states [..., H]."""
    flat = states.reshape(1, -1, states.shape[-1])
    return network.answer(flat, {})["logits"].numpy().reshape(-1, 2, 2)


def _report(
    found: ProbeFindings,
    logits: Mapping[str, np.ndarray],
    config: AnalysisConfig,
) -> Report:
    effects = {k: _effects(x, config) for k, x in logits.items()}
    headline = {f"{_TASK} accuracy, last layer": found.accuracies[MODEL][-1]}
    if MODEL in effects:
        headline["effect of a copy on the logit"] = effects[MODEL][_WORDS[0]]
    of_task = {_TASK: found}
    tables = [probe_findings.table(_TASK, found)]
    if logits:
        tables.append(_effect_table(logits, effects))
    return Report(
        what="copies",
        headline={name: x.value for name, x in headline.items()},
        results={"probes": of_task, "effects": effects},
        tables=tables,
        plots=probe_findings.plots(of_task),
    )


def _effects(logits: np.ndarray, config: AnalysisConfig) -> dict[str, Interval]:
    """Computes the effect of a copy on each of `_WORDS`, from [E, 2, 2]."""
    changes = np.diff(logits)[..., 0]  # [E, 2]
    return {
        name: bootstrap(lambda i, x=x: x[i].mean(), len(x), config)
        for name, x in zip(_WORDS, changes.T, strict=True)
    }


def _effect_table(logits: Mapping[str, np.ndarray], effects: Effects) -> Table:
    means = {name: x.mean(0) for name, x in logits.items()}
    return Table(
        "Mean logit of a word, over 0 if replaced, by whether the word is that "
        "of the sentence or of another one; its difference with a copy, 95 % "
        "interval over sentences",
        ["network", "word", *_LABELS, "difference", "low", "high"],
        [
            [network, word, *means[network][i], *effects[network][word]]
            for network in logits
            for i, word in enumerate(_WORDS)
        ],
    )
