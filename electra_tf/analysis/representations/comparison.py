"""Representations by layer: similarity, anisotropy, probes, neighbours.

The states of words are compared within a model, and with --twin between two,
as ELECTRA and its twin that learns by masked language modelling. A word's
state is that of its first word piece, so that two tokenizers may differ; a
word beyond the row of either network is left out.

--test holds the words that the figures are of; from those of --dev, if given,
linear probes learn. Both are Universal Dependencies (.conllu: parts of speech)
or files of CoNLL-2000 (chunks).
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.analysis import loaded_networks
from electra_tf.analysis.examples import tagged_sentences
from electra_tf.analysis.examples.tagged_sentences import Sentence
from electra_tf.analysis.reporting import statistics
from electra_tf.analysis.reporting.reports import Report
from electra_tf.analysis.reporting.statistics import Interval
from electra_tf.analysis.representations import (
    anisotropy,
    cka,
    hidden_states,
    linear_models,
    neighbours,
    probes,
)
from electra_tf.analysis.representations import report as representation_report
from electra_tf.analysis.representations.hidden_states import (
    LayerReader,
    WordStates,
)
from electra_tf.analysis.representations.probes import (
    Baselines,
    Hits,
    LayerProbes,
)
from electra_tf.analysis.representations.report import (
    MODEL,
    TWIN,
    Findings,
    ProbeFindings,
)
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.model.networks import EncoderWithHead
from electra_tf.util.errors import UserError

MINIBATCH_WORDS = 256
"""Words of a minibatch of CKA."""
MAX_LEARNT_WORDS = 10_000
"""Words that a probe learns from, at most; their states are in memory."""
MAX_COSINE_WORDS = 4_000
"""Words that anisotropy is of, about, at most; likewise."""

_GROUP_SENTENCES = 128  # whose states are in memory at once


class _Probing(NamedTuple):
    """What tells tags of a task: probes of each network, and baselines."""

    probes: list[LayerProbes]
    baselines: Baselines
    num_learnt: int


class _Measured(NamedTuple):
    """What one pass over the test words gives.

    Attributes:
      num_words: of them.
      criteria: float64 [batches, S, S], of the layers of all networks.
      sample: groups for anisotropy.
      hits: task -> one for each network, and last one of the baselines.
    """

    num_words: int
    criteria: np.ndarray
    sample: list[WordStates]
    hits: Mapping[str, list[Hits]]


def run(config: AnalysisConfig) -> Report:
    """Compares the representations of a model, layer by layer, and its twin's.

    Args:
      config: `model`, `twin`, `dev`, `test`, `words`, `max_examples` and how
        to read are used.

    Raises:
      UserError: if a file or a checkpoint cannot be used, if --dev has tags
        that --test has not, or without scikit-learn where there is --dev.
    """
    learnt, tested = _sentences(config)
    paths = {MODEL: config.model, TWIN: config.twin}
    networks = {
        name: loaded_networks.load(path, config)
        for name, path in paths.items()
        if path
    }
    near = neighbours.of_words(networks, config.words)
    readers = [LayerReader(network) for network in networks.values()]
    probing = {
        task: _learn(readers, [x for x in learnt if x.task == task], config)
        for task in sorted({sentence.task for sentence in learnt})
    }
    measured = _measure(readers, tested, probing, config)
    findings = Findings(
        num_sentences=len(tested),
        num_words=measured.num_words,
        num_left_out=sum(len(x.words) for x in tested) - measured.num_words,
        probes={
            task: _probe_findings(list(networks), probing[task], hits, config)
            for task, hits in measured.hits.items()
        },
        neighbours=near,
        **_similarities(networks, measured.criteria, config),
        **_anisotropies(list(networks), measured.sample, config),
    )
    return representation_report.make(findings)


def _sentences(
    config: AnalysisConfig,
) -> tuple[list[Sentence], list[Sentence]]:
    """Reads the sentences to learn from and to test on, in random order."""
    if config.dev:
        linear_models.check()
    random = np.random.default_rng(config.seed)
    splits = []
    for paths in (config.dev, config.test):
        sentences = tagged_sentences.read(
            paths, max_examples=config.max_examples, seed=config.seed
        )
        order = random.permutation(len(sentences))
        splits.append([sentences[i] for i in order])
    _check_tasks(*splits)
    return splits[0], splits[1]


def _check_tasks(learnt: list[Sentence], tested: list[Sentence]) -> None:
    """Refuses tags to learn that are nowhere tested, or all the same."""
    there = {sentence.task for sentence in tested}
    for task in sorted({sentence.task for sentence in learnt}):
        if task not in there:
            raise UserError(
                f"--test must have the tags that --dev has: {task}. Received: "
                f"{', '.join(sorted(there))}. Name a file of the same kind."
            )
        tags = {t for x in learnt if x.task == task for t in x.tags}
        if len(tags) < 2:
            raise UserError(
                f"--dev must have two tags or more of the kind {task}. "
                f"Received: {', '.join(tags)} alone. Give more sentences."
            )


def _groups(
    readers: Sequence[LayerReader],
    sentences: Sequence[Sentence],
    config: AnalysisConfig,
) -> Iterator[WordStates]:
    """Yields the states of groups of sentences."""
    found = hidden_states.read(
        readers,
        [sentence.words for sentence in sentences],
        batch_size=config.batch_size,
        group_size=_GROUP_SENTENCES,
    )
    # A sentence whose first word fills the row gives no states.
    return (group for group in found if len(group.words))


def _learn(
    readers: Sequence[LayerReader],
    sentences: Sequence[Sentence],
    config: AnalysisConfig,
) -> _Probing:
    """Fits the probes of a task, and counts for its baselines."""
    groups, num_words = [], 0
    for group in _groups(readers, sentences, config):
        groups.append(group)
        num_words += len(group.words)
        if num_words >= MAX_LEARNT_WORDS:
            break
    words, tags = map(
        list, zip(*(_tagged(sentences, x) for x in groups), strict=True)
    )
    words = list(itertools.chain(*words))[:MAX_LEARNT_WORDS]
    tags = list(itertools.chain(*tags))[:MAX_LEARNT_WORDS]
    fitted = []
    for i in range(len(readers)):
        states = np.concatenate([x.states[i] for x in groups], axis=1)
        fitted.append(LayerProbes(states[:, :MAX_LEARNT_WORDS], tags))
    return _Probing(fitted, probes.baselines(words, tags), len(words))


def _tagged(
    sentences: Sequence[Sentence], group: WordStates
) -> tuple[list[str], list[str]]:
    """Returns the words of a group, and their tags."""
    where = list(zip(group.sentences, group.words, strict=True))
    words = [sentences[number].words[word] for number, word in where]
    return words, [sentences[number].tags[word] for number, word in where]


def _measure(
    readers: Sequence[LayerReader],
    sentences: Sequence[Sentence],
    probing: Mapping[str, _Probing],
    config: AnalysisConfig,
) -> _Measured:
    """Reads the test words once."""
    random = np.random.default_rng(config.seed)
    criteria: list[np.ndarray] = []
    sample: list[WordStates] = []
    hits: dict[str, list[list[Hits]]] = {task: [] for task in probing}
    num_words = 0
    for group in _groups(readers, sentences, config):
        criteria += _criteria(group, random)
        if num_words < MAX_COSINE_WORDS:
            sample.append(group)
        num_words += len(group.words)
        for task, known in probing.items():
            hits[task].append(_hits(group, sentences, task, known))
    if not criteria:
        raise UserError(
            f"--test must have {cka.MIN_WORDS} words or more that fit in a "
            f"row. Received: {num_words}. Give more sentences."
        )
    joined = {
        task: [_joined(of_one) for of_one in zip(*groups, strict=True)]
        for task, groups in hits.items()
    }
    return _Measured(num_words, np.stack(criteria), sample, joined)


def _criteria(
    group: WordStates, random: np.random.Generator
) -> list[np.ndarray]:
    """Returns HSIC of each minibatch of a group's words.

    Words of a minibatch are drawn from all sentences of the group, as those of
    one sentence depend on one another. Words that fill none are left out.
    """
    num_words = len(group.words)
    order = random.permutation(num_words)
    size = min(MINIBATCH_WORDS, num_words)
    if size < cka.MIN_WORDS:
        return []
    batches = [
        order[first : first + size]
        for first in range(0, num_words - size + 1, size)
    ]
    layers = [layer for states in group.states for layer in states]
    return [cka.hsic([x[batch] for x in layers]) for batch in batches]


def _hits(
    group: WordStates,
    sentences: Sequence[Sentence],
    task: str,
    known: _Probing,
) -> list[Hits]:
    """Tells the tags of a group's words of a task."""
    chosen = np.array([sentences[i].task == task for i in group.sentences])
    part = WordStates(
        group.sentences[chosen],
        group.words[chosen],
        [states[:, chosen] for states in group.states],
    )
    words, tags = _tagged(sentences, part)
    told = known.baselines
    rows = [
        [told.most_frequent == tag for tag in tags],
        [told.of_word(x) == tag for x, tag in zip(words, tags, strict=True)],
    ]
    right = [np.array(rows, bool)]
    for fitted, states in zip(known.probes, part.states, strict=True):
        is_empty = not tags
        none = np.zeros((len(states), 0), bool)
        right.append(none if is_empty else fitted.is_right(states, tags))
    return [Hits(part.sentences, x) for x in [*right[1:], right[0]]]


def _joined(groups: Sequence[Hits]) -> Hits:
    return Hits(
        np.concatenate([x.sentences for x in groups]),
        np.concatenate([x.is_right for x in groups], axis=1),
    )


def _probe_findings(
    names: Sequence[str],
    known: _Probing,
    hits: Sequence[Hits],
    config: AnalysisConfig,
) -> ProbeFindings:
    """Computes the accuracies of a task, and intervals over sentences."""
    *of_networks, of_baselines = hits
    options = {"num_resamples": config.num_resamples, "seed": config.seed}
    most, by_word = probes.accuracies(of_baselines, **options)
    differences = []
    if len({len(x.is_right) for x in of_networks}) < len(of_networks):
        differences = probes.differences(*of_networks, **options)
    return ProbeFindings(
        num_learnt=known.num_learnt,
        num_tested=len(of_baselines.sentences),
        baselines={
            "most frequent tag": most,
            "most frequent tag of the word": by_word,
        },
        accuracies={
            name: probes.accuracies(one, **options)
            for name, one in zip(names, of_networks, strict=True)
        },
        differences=differences,
    )


def _similarities(
    networks: Mapping[str, EncoderWithHead],
    criteria: np.ndarray,
    config: AnalysisConfig,
) -> dict[str, object]:
    """Computes CKA of all layers, and intervals where two are of a height."""
    sizes = [len(x.encoder.blocks) + 1 for x in networks.values()]
    starts = dict(zip(networks, [0, *sizes], strict=False))
    whole = cka.cka(criteria)
    matrices = {}
    pairs = itertools.combinations_with_replacement(range(len(sizes)), 2)
    names = list(networks)
    for i, j in pairs:
        rows = slice(starts[names[i]], starts[names[i]] + sizes[i])
        columns = slice(starts[names[j]], starts[names[j]] + sizes[j])
        matrices[names[i], names[j]] = whole[rows, columns]
    same: list[Interval] = []
    if len(sizes) == 2 and sizes[0] == sizes[1]:
        same = [
            _cka_interval(criteria, layer, sizes[0] + layer, config)
            for layer in range(sizes[0])
        ]
    return {"cka": matrices, "same_layer": same}


def _cka_interval(
    criteria: np.ndarray, layer: int, other: int, config: AnalysisConfig
) -> Interval:
    """Computes CKA of two layers, with minibatches resampled."""
    pair = criteria[:, [layer, other]][:, :, [layer, other]]
    return statistics.bootstrap(
        lambda chosen: cka.cka(pair[chosen])[0, 1],
        len(pair),
        num_resamples=config.num_resamples,
        seed=config.seed,
    )


def _anisotropies(
    names: Sequence[str], sample: Sequence[WordStates], config: AnalysisConfig
) -> dict[str, Mapping[str, list[Interval]]]:
    """Computes the anisotropy of each layer, as it is and mean-centred."""
    sentences = np.concatenate([group.sentences for group in sample])
    options = {"num_resamples": config.num_resamples, "seed": config.seed}
    found: dict[str, dict[str, list[Interval]]] = {}
    for i, name in enumerate(names):
        layers = np.concatenate([group.states[i] for group in sample], axis=1)
        centred = layers - layers.mean(1, keepdims=True)
        for kind, states in (("anisotropy", layers), ("centred", centred)):
            found.setdefault(kind, {})[name] = [
                anisotropy.mean_cosine(x, sentences, **options) for x in states
            ]
    return found
