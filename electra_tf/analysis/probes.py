"""Linear probes of each layer, and the similarity (CKA) of layers.

For each layer a logistic regression is fitted on --dev and scored on --test:

    part of speech, chunk   of a word, from its state (.conllu, CoNLL-2000)
    word swap               whether two neighbouring words of a sentence are
                            exchanged, from the mean of its words' states

Beside the layers stand the most frequent label of all and that of each word, an
untrained encoder of the same sizes, and layer 0, which has words and positions
but no context. The best layer is chosen on a fifth of the --dev sentences,
which no probe is fitted on. A word's state is that of its first word piece.
Sentences longer than a row of either model are left out.

Linear centred kernel alignment (CKA) is 1 if the states of one layer are a
rotation and scaling of the other's, and 0 if they are independent. The
Hilbert-Schmidt independence criterion (HSIC) is estimated without bias, and
averaged over minibatches of words before the ratio is taken.

Letters in shapes: S layers including the embeddings, N sentences, W items to
classify, n words in a minibatch, H hidden.

Source: Kornblith et al., 2019 (CKA); Song et al., 2012, equation 5 (unbiased
HSIC); Nguyen et al., 2021, section 3 (minibatches); Conneau et al., 2018, task
BShift (word swaps of sentences of 5 to 28 words).
"""

import collections
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.analysis import examples
from electra_tf.analysis.networks import ROWS_SPEC, padded
from electra_tf.analysis.report import (
    GREY,
    Interval,
    Report,
    Table,
    bootstrap,
    shown,
)
from electra_tf.checkpoint import loading
from electra_tf.checkpoint.weights import select
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data.packing import batches
from electra_tf.model import layers
from electra_tf.model.networks import EncoderWithHead, complete_ids
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Words = tuple[str, ...]

MAX_ITEMS = 10_000
"""Most words or sentences of a probe in either split; states are in memory."""
CKA_WORDS, MINIBATCH_WORDS = 4096, 256

MODEL, TWIN, UNTRAINED = "model", "twin", "untrained"
SWAP = "word swap"
LABEL = "most frequent label"
LABEL_OF_WORD = "most frequent label of the word"
_VALIDATION = 5  # one group in so many of --dev chooses the layer
_MIN_WORDS, _MAX_WORDS = 5, 28  # of sentences whose words are exchanged
_UNTRAINED_SEED = 2**31  # added, so that no run began with these weights


class Encoder:
    """Computes the states of words in each layer of a network."""

    def __init__(self, network: EncoderWithHead, batch_size: int) -> None:
        self._network = network
        self._batch_size = batch_size

    def pieces(self, sentences: Sequence[Words]) -> list[list[list[int]]]:
        """Splits the words of sentences into ids of word pieces."""
        reader = self._network.reader
        words = list(itertools.chain.from_iterable(sentences))
        ids = iter(reader.tokenize(tf.constant(words)).to_list())
        unknown = [reader.vocabulary.unk_id]
        return [[next(ids) or unknown for _ in words] for words in sentences]

    def can_read(self, sentences: Sequence[Words]) -> np.ndarray:
        """Tests whether sentences fit in a row, [N]."""
        sizes = [sum(map(len, words)) for words in self.pieces(sentences)]
        return np.array(sizes) + 2 <= self._network.reader.max_seq_length

    def states(
        self, sentences: Sequence[Words], *, of_sentences: bool = False
    ) -> np.ndarray:
        """Computes the states of words, or their means, [S, W, H]."""
        vocabulary = self._network.reader.vocabulary
        pieces = self.pieces(sentences)
        sizes = [sum(map(len, words)) for words in pieces]
        order = sorted(range(len(pieces)), key=sizes.__getitem__)
        of_sentence = {}
        for batch in batches(order, self._batch_size):
            ids = [itertools.chain(*pieces[i]) for i in batch]
            rows = [[vocabulary.cls_id, *x, vocabulary.sep_id] for x in ids]
            layers_of_rows = self._forward(tf.constant(padded(rows))).numpy()
            for row, i in enumerate(batch):
                starts = np.cumsum([1, *map(len, pieces[i][:-1])])
                states = layers_of_rows[:, row, starts]  # [S, words, H]
                if of_sentences:
                    states = states.mean(1, keepdims=True)
                of_sentence[i] = states
        return np.concatenate([of_sentence[i] for i in sorted(order)], 1)

    @tf.function(input_signature=[ROWS_SPEC], autograph=False)
    def _forward(self, ids: tf.Tensor) -> tf.Tensor:
        """Computes the states of all layers, [S, B, L, H]."""
        output = self._network.encoder(**complete_ids({"input_ids": ids}))
        return tf.stack([output.embedding_output, *output.all_layers])


class Items(NamedTuple):
    """Items of a task; labels, groups and words are [W].

    Those of a group are in one sentence, or the two forms of one.
    """

    sentences: list[Words]
    labels: np.ndarray
    groups: np.ndarray
    words: np.ndarray | None


def run(config: AnalysisConfig) -> Report:
    """Probes the layers of a model and its twin, and compares them by CKA."""
    names = ("dev", "test") if config.dev else ("test",)
    splits = {name: examples.read_sentences(config, name) for name in names}
    networks = {MODEL: load(config.model, config)}
    if config.twin:
        networks[TWIN] = load(config.twin, config, prefers_own=True)
    trained = list(networks)
    if config.dev:
        networks[UNTRAINED] = untrained(networks[MODEL], config.seed)
    encoders = {k: Encoder(x, config.batch_size) for k, x in networks.items()}
    for name, sentences in splits.items():
        words = [sentence.words for sentence in sentences]
        fits = np.all([x.can_read(words) for x in encoders.values()], 0)
        order = np.random.default_rng(config.seed).permutation(len(words))
        splits[name] = [sentences[i] for i in order if fits[i]]
    findings = {}
    if config.dev:
        test_items = tasks(splits["test"], config.seed)
        for task, dev_items in tasks(splits["dev"], config.seed).items():
            if task not in test_items:
                raise UserError(f"--test has no {task}, which --dev has.")
            findings[task] = probe(
                encoders, dev_items, test_items[task], config
            )
    words = [x.words for x in _first(splits["test"], CKA_WORDS)]
    states = {name: encoders[name].states(words) for name in trained}
    return _report(findings, similarities(states, config.seed))


def load(
    path: str, config: AnalysisConfig, *, prefers_own: bool = False
) -> EncoderWithHead:
    """Loads the main network of a checkpoint."""
    weights = loading.read_with_vocabulary(
        path, config.vocab_file, prefers_own=prefers_own
    )
    chosen = select(weights, weights.networks[0])
    longest = chosen.architecture.encoder.max_position_embeddings
    return loading.make(
        chosen,
        dtype=layers.POLICIES[config.precision],
        max_seq_length=loading.row_length(
            config.max_seq_length, weights.max_seq_length, longest
        ),
    )


def untrained(network: EncoderWithHead, seed: int) -> EncoderWithHead:
    """Makes an encoder of the same sizes with initial weights."""
    reader = network.reader
    with seeds.seed_initializers(_UNTRAINED_SEED + seed):
        return EncoderWithHead(
            network.config,
            reader.vocabulary,
            dtype=network.dtype_policy,
            do_lower_case=reader.do_lower_case,
            strip_accents=reader.strip_accents,
            max_seq_length=reader.max_seq_length,
        )


def _first(
    sentences: Sequence[examples.Sentence], num_words: int
) -> list[examples.Sentence]:
    """Returns the first sentences, of at most `num_words` in all."""
    ends = np.cumsum([len(sentence.words) for sentence in sentences])
    return list(sentences[: np.searchsorted(ends, num_words, "right")])


def tasks(
    sentences: Sequence[examples.Sentence], seed: int
) -> dict[str, Items]:
    """Returns the items of each task of a split."""
    found = {}
    for task in sorted({sentence.task for sentence in sentences}):
        some = _first([x for x in sentences if x.task == task], MAX_ITEMS)
        found[task] = Items(
            [x.words for x in some],
            np.array([tag for x in some for tag in x.tags]),
            np.repeat(np.arange(len(some)), [len(x.words) for x in some]),
            np.array([word for x in some for word in x.words]),
        )
    random = np.random.default_rng(seed)
    forms = [form for x in sentences for form in swapped(x.words, random)]
    forms = forms[:MAX_ITEMS]
    if forms:
        labels = np.tile(["original", "swapped"], len(forms) // 2)
        groups = np.repeat(np.arange(len(forms) // 2), 2)
        found[SWAP] = Items(forms, labels, groups, None)
    return found


def swapped(words: Words, random: np.random.Generator) -> list[Words]:
    """Returns a sentence and its form with two words exchanged, if it can be.

    The first word stays, as its capital would tell, and so do words that are
    not all letters.
    """
    indices = [
        i
        for i, (a, b) in enumerate(itertools.pairwise(words))
        if i and (a + b).isalpha() and a.lower() != b.lower()
    ]
    if not indices or not _MIN_WORDS <= len(words) <= _MAX_WORDS:
        return []
    i = random.choice(indices)
    return [words, (*words[:i], words[i + 1], words[i], *words[i + 2 :])]


def probe(
    encoders: Mapping[str, Encoder],
    dev: Items,
    test: Items,
    config: AnalysisConfig,
) -> dict[str, Any]:
    """Fits the probes of a task, chooses layers on dev, and scores on test."""
    is_train = dev.groups % _VALIDATION != _VALIDATION - 1
    labels = dev.labels[is_train]
    words = None if dev.words is None else dev.words[is_train]
    most, by_word = most_frequent_labels(labels, words)
    is_right: dict[Any, np.ndarray] = {LABEL: test.labels == most}
    if words is not None:
        answers = [by_word.get(word, most) for word in test.words]
        is_right[LABEL_OF_WORD] = np.array(answers) == test.labels
    baselines, networks = list(is_right), {}
    for name, encoder in encoders.items():
        dev_states, test_states = (
            encoder.states(x.sentences, of_sentences=words is None)
            for x in (dev, test)
        )
        scores = []
        for layer, states in enumerate(dev_states):
            fitted = fit_classifier(states[is_train], labels)
            score = fitted.score(states[~is_train], dev.labels[~is_train])
            scores.append(score)
            answers = fitted.predict(test_states[layer])
            is_right[name, layer] = answers == test.labels
        networks[name] = {"best_layer": 1 + int(np.argmax(scores[1:]))}
    best = {k: is_right[k, x["best_layer"]] for k, x in networks.items()}
    others = [name for name in encoders if name != MODEL]
    for other in others:
        is_right[other] = best[MODEL].astype(int) - best[other]
    found = accuracies(is_right, test.groups, config)
    for name, network in networks.items():
        network["layers"] = [x for key, x in found.items() if key[0] == name]
        network["best"] = network["layers"][network["best_layer"]]
    return {
        "num_train": len(labels),
        "num_test": len(test.labels),
        "networks": networks,
        "baselines": {name: found[name] for name in baselines},
        "differences": {f"{MODEL} - {x}": found[x] for x in others},
    }


def most_frequent_labels(
    labels: np.ndarray, words: np.ndarray | None
) -> tuple[str, dict[str, str]]:
    """Returns the most frequent label, and that of each word."""
    counts = collections.defaultdict(collections.Counter)
    if words is not None:
        for word, label in zip(words, labels, strict=True):
            counts[word][label] += 1
    by_word = {word: x.most_common(1)[0][0] for word, x in counts.items()}
    return collections.Counter(labels).most_common(1)[0][0], by_word


def fit_classifier(features: np.ndarray, labels: Sequence[str]) -> object:
    """Fits a logistic regression to standardized features."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # A tenth of this tolerance takes twice the time for the same accuracy.
    regression = LogisticRegression(max_iter=1000, tol=1e-3)
    return make_pipeline(StandardScaler(), regression).fit(features, labels)


def accuracies(
    is_right: Mapping, groups: np.ndarray, config: AnalysisConfig
) -> dict[Any, Interval]:
    """Computes the mean of each array; its interval resamples groups."""
    sizes = np.bincount(groups)
    sums = np.array([np.bincount(groups, x) for x in is_right.values()])
    found = bootstrap(
        lambda i: sums[:, i].sum(1) / sizes[i].sum(), len(sizes), config
    )
    return dict(zip(is_right, found, strict=True))


def hsic(states: Sequence[np.ndarray]) -> np.ndarray:
    """Estimates HSIC of all pairs of layers without bias, [S, S].

    Shapes: each layer's states [n, H].
    """
    n = len(states[0])
    grams = []
    for layer in states:
        # Centring does not change the estimate, and loses fewer digits.
        centred = layer.astype(np.float64) - layer.mean(0, dtype=np.float64)
        gram = centred @ centred.T  # [n, n]
        np.fill_diagonal(gram, 0)
        grams.append(gram)
    sums = np.sum(grams, 2)  # [S, n]
    totals = sums.sum(1)  # [S]
    flat = np.reshape(grams, (len(grams), -1))
    corrections = np.outer(totals, totals) / ((n - 1) * (n - 2))
    corrections -= sums @ sums.T * (2 / (n - 2))
    return (flat @ flat.T + corrections) / (n * (n - 3))


def cka(criteria: np.ndarray) -> np.ndarray:
    """Computes CKA, [S, S], of the HSIC of minibatches, [minibatches, S, S]."""
    mean = criteria.mean(0)
    own = np.sqrt(np.maximum(np.diagonal(mean), 0))
    scale = np.outer(own, own)
    return np.divide(mean, scale, np.full_like(mean, np.nan), where=scale > 0)


def similarities(
    states: Mapping[str, np.ndarray], seed: int
) -> dict[str, np.ndarray]:
    """Computes CKA within and between networks, of states [S, W, H] each."""
    every_layer = list(itertools.chain(*states.values()))
    num_words = len(every_layer[0])
    size = min(MINIBATCH_WORDS, num_words)
    order = np.random.default_rng(seed).permutation(num_words)
    minibatches = order[: num_words - num_words % size].reshape(-1, size)
    criteria = [hsic([x[batch] for x in every_layer]) for batch in minibatches]
    matrix = cka(np.array(criteria))
    ends = np.cumsum([0, *map(len, states.values())])
    parts = {name: slice(*ends[i : i + 2]) for i, name in enumerate(states)}
    pairs = itertools.combinations_with_replacement(states, 2)
    return {f"{a}, {b}": matrix[parts[a], parts[b]] for a, b in pairs}


def _report(
    findings: Mapping[str, Mapping], matrices: Mapping[str, np.ndarray]
) -> Report:
    headline = {
        f"{task} accuracy, layer chosen on dev": x["networks"][MODEL]["best"][0]
        for task, x in findings.items()
    }
    if (pair := f"{MODEL}, {TWIN}") in matrices:
        headline["CKA with twin, last layers"] = float(matrices[pair][-1, -1])
    tables = [_table(task, x) for task, x in findings.items()]
    for names, matrix in matrices.items():
        rows = [[str(i), *map(float, row)] for i, row in enumerate(matrix)]
        header = ["layer", *map(str, range(matrix.shape[1]))]
        title = f"Linear CKA, unbiased, of layers: {names} (down, across)"
        tables.append(Table(title, header, rows))
    plots = {
        f"probes_{task.replace(' ', '_')}": functools.partial(
            _draw, task=task, found=x
        )
        for task, x in findings.items()
    }
    results = {"probes": findings, "cka": matrices}
    return Report("probes", headline, results, tables, plots)


def _table(task: str, found: Mapping[str, Any]) -> Table:
    """Makes the table of a task: layers, layer 0 apart, baselines."""
    networks = found["networks"].values()
    depth = max(len(x["layers"]) for x in networks)

    def row(layer: int) -> list[str]:
        return [
            shown(x["layers"][layer]) if layer < len(x["layers"]) else ""
            for x in networks
        ]

    chosen = [f"{shown(x['best'])} ({x['best_layer']})" for x in networks]
    rows = [[f"layer {i}", *row(i)] for i in range(1, depth)]
    rows.append(["chosen on dev (layer)", *chosen])
    rows.append(["layer 0, no context", *row(0)])
    blank = [""] * (len(networks) - 1)
    for name, x in (found["baselines"] | found["differences"]).items():
        rows.append([name, shown(x), *blank])
    title = (
        f"Linear probes, {task}: accuracy on {found['num_test']:,} of --test, "
        f"fitted on {found['num_train']:,} of --dev; 95 % intervals over "
        "sentences"
    )
    return Table(title, ["", *found["networks"]], rows)


def _draw(axes: "Axes", task: str, found: Mapping[str, Any]) -> None:
    """Draws the accuracies by layer, and a line for each baseline."""
    for name, x in found["networks"].items():
        values, lows, highs = np.array(x["layers"]).T
        axes.plot(values, "o-", label=name)
        axes.fill_between(range(len(values)), lows, highs, alpha=0.2)
    for name, x in found["baselines"].items():
        axes.axhline(x.value, color=GREY, label=name)
    axes.set(title=f"Linear probes: {task}", xlabel="layer", ylabel="accuracy")
    axes.legend()
