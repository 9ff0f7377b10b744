"""Representations by layer: similarity, anisotropy, probes, neighbours.

The states of words are compared within a model and, with --twin, between two,
such as ELECTRA and a masked language model. A word's state is that of its first
word piece, so that the tokenizers may differ; a word beyond the end of either
network's row is left out.

All figures are computed on the words of --test; linear probes are fitted on
those of --dev, if given. Both are Universal Dependencies (.conllu: parts of
speech) or files of CoNLL-2000 (chunks).
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.analysis.examples import tagged_sentences
from electra_tf.analysis.examples.tagged_sentences import Sentence
from electra_tf.analysis.reporting.reports import Report
from electra_tf.analysis.reporting.statistics import Interval, bootstrap
from electra_tf.analysis.representations import (
    anisotropy,
    cka,
    hidden_states,
    layers,
    neighbours,
    probe_findings,
    probes,
)
from electra_tf.analysis.representations import report as representation_report
from electra_tf.analysis.representations.hidden_states import (
    LayerReader,
    WordStates,
)
from electra_tf.analysis.representations.layers import MODEL
from electra_tf.analysis.representations.probe_findings import Hits
from electra_tf.analysis.representations.probes import Probes
from electra_tf.analysis.representations.report import Findings
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util.errors import UserError

MINIBATCH_WORDS = 256
"""Words in a minibatch of CKA."""
MAX_TRAINING_WORDS = 10_000
"""Greatest number of training words of a probe; their states are in memory."""
MAX_COSINE_WORDS = 4_000
"""Approximate number of words that anisotropy is computed on, at most; their
states are in memory, too."""


class _Measured(NamedTuple):
    """Results of one pass over the test words."""

    num_words: int
    criteria: np.ndarray
    sample: WordStates
    hits: Mapping[str, Hits]


def run(config: AnalysisConfig) -> Report:
    """Compares the representations of a model and its twin, layer by layer."""
    train, test = _sentences(config)
    networks = hidden_states.load(config)
    nearest = neighbours.of_words(networks, config.words)
    sizes = {k: len(x.encoder.blocks) + 1 for k, x in networks.items()}
    readers = [LayerReader(network) for network in networks.values()]
    probes_by_task = {
        task: _fit_probes(readers, [x for x in train if x.task == task], config)
        for task in sorted({sentence.task for sentence in train})
    }
    measured = _measure(readers, test, probes_by_task, config)
    findings = Findings(
        num_sentences=len(test),
        num_words=measured.num_words,
        num_left_out=sum(len(x.words) for x in test) - measured.num_words,
        probes={
            task: probe_findings.find(
                hits,
                probes_by_task[task].num_learnt,
                probes.BASELINES,
                sizes,
                config,
            )
            for task, hits in measured.hits.items()
        },
        neighbours=nearest,
        **_similarities(sizes, measured.criteria, config),
        **_anisotropies(list(networks), measured.sample, config),
    )
    return representation_report.make(findings)


def _sentences(config: AnalysisConfig) -> tuple[list[Sentence], list[Sentence]]:
    """Reads the sentences of --dev and --test, in random order."""
    random = np.random.default_rng(config.seed)
    train: list[Sentence] = []
    if config.dev:
        train = tagged_sentences.read(config, "dev")
    test = tagged_sentences.read(config, "test")
    _check_tasks(train, test)
    train, test = (
        [some[i] for i in random.permutation(len(some))]
        for some in (train, test)
    )
    return train, test


def _check_tasks(train: list[Sentence], test: list[Sentence]) -> None:
    """Refuses a kind of tags that --test lacks, or with a single tag."""
    test_tasks = {sentence.task for sentence in test}
    for task in sorted({sentence.task for sentence in train}):
        if task not in test_tasks:
            raise UserError(
                f"--test must have the tags that --dev has: {task}. Received: "
                f"{', '.join(sorted(test_tasks))}. Name a file of the same "
                "kind."
            )
        _require_two_tags(
            [t for x in train if x.task == task for t in x.tags], task
        )


def _require_two_tags(tags: Iterable[str], task: str) -> None:
    """Refuses training data with a single tag."""
    kinds = set(tags)
    if len(kinds) < 2:
        raise UserError(
            f"--dev must have two tags or more of the kind {task}, of words "
            f"that fit in a row. Received: only {', '.join(kinds)}. Give "
            "more sentences."
        )


def _groups(
    readers: Sequence[LayerReader],
    sentences: Sequence[Sentence],
    config: AnalysisConfig,
) -> Iterator[WordStates]:
    """Yields the word states of each group of sentences."""
    found = hidden_states.read(
        readers,
        [sentence.words for sentence in sentences],
        batch_size=config.batch_size,
    )
    # A sentence whose first word fills the row gives no states.
    return (group for group in found if len(group.words))


def _fit_probes(
    readers: Sequence[LayerReader],
    sentences: Sequence[Sentence],
    config: AnalysisConfig,
) -> Probes:
    """Fits the probes of a task."""
    groups, num_words = [], 0
    for group in _groups(readers, sentences, config):
        groups.append(group)
        num_words += len(group.words)
        if num_words >= MAX_TRAINING_WORDS:
            break
    if not groups:
        raise UserError(
            "--dev must have words that fit in a row. Received: none. Set "
            "--max_seq_length, or give more sentences."
        )
    group = hidden_states.join(groups).select(slice(MAX_TRAINING_WORDS))
    words, tags = _tagged(sentences, group)
    _require_two_tags(tags, sentences[0].task)
    return probes.learn(words, tags, _layers(group))


def _layers(group: WordStates) -> list[np.ndarray]:
    """Returns the states in each layer of all networks, [W, H]."""
    return list(itertools.chain(*group.states))


def _tagged(
    sentences: Sequence[Sentence], group: WordStates
) -> tuple[list[str], list[str]]:
    """Returns the words of a group, and their tags."""
    positions = list(zip(group.sentences, group.words, strict=True))
    words = [sentences[number].words[word] for number, word in positions]
    return words, [sentences[number].tags[word] for number, word in positions]


def _measure(
    readers: Sequence[LayerReader],
    sentences: Sequence[Sentence],
    probes_by_task: Mapping[str, Probes],
    config: AnalysisConfig,
) -> _Measured:
    """Computes all results in one pass over the test words."""
    random = np.random.default_rng(config.seed)
    criteria: list[np.ndarray] = []
    sample: list[WordStates] = []
    hits: dict[str, list[Hits]] = {task: [] for task in probes_by_task}
    num_words = 0
    for group in _groups(readers, sentences, config):
        criteria += _criteria(group, random)
        if num_words < MAX_COSINE_WORDS:
            sample.append(group)
        num_words += len(group.words)
        for task, task_probes in probes_by_task.items():
            hits[task] += _hits(group, sentences, task, task_probes)
    if not criteria:
        raise UserError(
            f"--test must have {cka.MIN_WORDS} words or more that fit in a "
            f"row. Received: {num_words}. Give more sentences."
        )
    for task, some in hits.items():
        if not some:
            raise UserError(
                f"--test must have words with tags of the kind {task} that fit "
                "in a row. Received: none. Set --max_seq_length, or give more "
                "sentences."
            )
    joined = {
        task: Hits(*(np.concatenate(x, -1) for x in zip(*some, strict=True)))
        for task, some in hits.items()
    }
    return _Measured(
        num_words, np.stack(criteria), hidden_states.join(sample), joined
    )


def _criteria(
    group: WordStates, random: np.random.Generator
) -> list[np.ndarray]:
    """Returns HSIC of each minibatch of a group's words."""
    num_words = len(group.words)
    order = random.permutation(num_words)
    size = min(MINIBATCH_WORDS, num_words)
    if size < cka.MIN_WORDS:
        return []
    batches = order[: num_words - num_words % size].reshape(-1, size)
    layers = _layers(group)
    return [cka.hsic([x[batch] for x in layers]) for batch in batches]


def _hits(
    group: WordStates,
    sentences: Sequence[Sentence],
    task: str,
    task_probes: Probes,
) -> list[Hits]:
    """Evaluates a task's probes on a group; empty without words of the task."""
    chosen = np.array([sentences[i].task == task for i in group.sentences])
    if not chosen.any():
        return []
    task_group = group.select(chosen)
    words, tags = _tagged(sentences, task_group)
    found = task_probes.predict(words, _layers(task_group))
    return [Hits(task_group.sentences, found == np.array(tags))]


def _similarities(
    sizes: Mapping[str, int], criteria: np.ndarray, config: AnalysisConfig
) -> dict[str, object]:
    """Computes CKA of all pairs of networks' layers."""
    similarity, slices = cka.cka(criteria), layers.layer_slices(sizes)
    pairs = itertools.combinations_with_replacement(slices, 2)
    common_layers = (
        range(sizes[MODEL]) if layers.have_equal_depth(sizes) else ()
    )
    return {
        "cka": {
            f"{a}, {b}": similarity[slices[a], slices[b]] for a, b in pairs
        },
        "same_layer_cka": [
            _cka_interval(criteria, layer, sizes[MODEL] + layer, config)
            for layer in common_layers
        ],
    }


def _cka_interval(
    criteria: np.ndarray, layer: int, other: int, config: AnalysisConfig
) -> Interval:
    """Computes CKA of two layers; the interval resamples minibatches."""
    pair = criteria[:, [layer, other]][:, :, [layer, other]]
    return bootstrap(lambda i: cka.cka(pair[i])[0, 1], len(pair), config)


def _anisotropies(
    names: Sequence[str], sample: WordStates, config: AnalysisConfig
) -> dict[str, Mapping[str, list[Interval]]]:
    """Computes the anisotropy of each layer's states, raw and mean-centred."""

    def of_layers(layers: np.ndarray) -> list[Interval]:
        return [
            anisotropy.mean_cosine(x, sample.sentences, config) for x in layers
        ]

    states = dict(zip(names, sample.states, strict=True))
    return {
        "anisotropy": {name: of_layers(x) for name, x in states.items()},
        "anisotropy_centred": {
            name: of_layers(x - x.mean(1, keepdims=True))
            for name, x in states.items()
        },
    }
