"""Linear probes of each layer, and the similarity (CKA) of layers.

For each layer a logistic regression is fitted on --dev and scored on --test:

    part of speech, chunk   of a word, from its state (.conllu, CoNLL-2000)
    word swap               whether two neighbouring words of a sentence are
                            exchanged, from the mean of its words' states

If it succeeds, the label is linearly decodable from the layer; that does not
mean that the network uses it. Beside the layers stand the most frequent label
of all and that of each word, an untrained encoder of the same sizes, and layer
0, which has words and positions but no context. The best layer is chosen on a
fifth of the --dev sentences, which no probe is fitted on. A word's state is
that of its first word piece, so that the tokenizers of two models may differ;
words beyond the end of either model's row are left out.

Linear centred kernel alignment (CKA) is 1 if the states of one layer are a
rotation and scaling of the other's, and 0 if they are independent. The
Hilbert-Schmidt independence criterion (HSIC) is estimated without bias, and
averaged over minibatches of words before the ratio is taken; the biased
estimate is near 1 for wide layers and few words whatever the states.

Letters in shapes: S layers including the embeddings, W items to classify, n
words in a minibatch, H hidden.

Source: Kornblith et al., 2019 (CKA); Song et al., 2012, equation 5 (unbiased
HSIC); Nguyen et al., 2021, section 3 (minibatches); Conneau et al., 2018, task
BShift (word swaps of sentences of 5 to 28 words).
"""

import collections
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.analysis import examples
from electra_tf.analysis.networks import ROWS_SPEC, compiled, padded
from electra_tf.analysis.report import Interval, Report, Table, bootstrap, shown
from electra_tf.checkpoint import loading
from electra_tf.checkpoint.weights import select
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data.packing import batches
from electra_tf.model import layers
from electra_tf.model.networks import EncoderWithHead, complete_ids
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

Words = tuple[str, ...]

MAX_ITEMS = 10_000
"""Most words or sentences of a probe in either split; states are in memory."""
CKA_WORDS, MINIBATCH_WORDS = 4096, 256

MODEL, TWIN, UNTRAINED = "model", "twin", "untrained"
SWAP = "word swap"
_VALIDATION = 5  # one group in so many of --dev chooses the layer
_MIN_WORDS, _MAX_WORDS = 5, 28  # of sentences whose words are exchanged


class Encoder:
    """Computes the states of words in each layer of a network."""

    def __init__(self, network: EncoderWithHead, batch_size: int) -> None:
        self._network = network
        self._batch_size = batch_size
        self._forward = compiled(self._states_at, ROWS_SPEC, ROWS_SPEC)

    def pieces(self, sentences: Sequence[Words]) -> list[list[list[int]]]:
        """Splits the words of sentences into ids of word pieces."""
        reader = self._network.reader
        words = list(itertools.chain.from_iterable(sentences))
        found = iter(reader.tokenize(tf.constant(words)).to_list())
        unknown = [reader.vocabulary.unk_id]
        return [
            [pieces or unknown for pieces in itertools.islice(found, len(x))]
            for x in sentences
        ]

    def num_fitting(self, sentences: Sequence[Words]) -> np.ndarray:
        """Counts the words of each sentence that fit in a row, [N]."""
        most = self._network.reader.max_seq_length - 2  # [CLS], [SEP]
        ends = [np.cumsum(list(map(len, x))) for x in self.pieces(sentences)]
        return np.array([np.searchsorted(x, most, "right") for x in ends])

    def states(
        self, sentences: Sequence[Words], *, of_sentences: bool = False
    ) -> np.ndarray:
        """Computes the states of words, or their means, [S, W, H]."""
        vocabulary = self._network.reader.vocabulary
        pieces = self.pieces(sentences)
        lengths = [sum(map(len, x)) for x in pieces]
        order = sorted(range(len(pieces)), key=lengths.__getitem__)
        found = [np.empty(0)] * len(pieces)
        for batch in batches(order, self._batch_size):
            rows, positions = [], []
            for number, i in enumerate(batch):
                ids = itertools.chain(*pieces[i])
                rows.append([vocabulary.cls_id, *ids, vocabulary.sep_id])
                starts = np.cumsum([1, *map(len, pieces[i])])[:-1]
                positions += [(number, start) for start in starts]
            states = self._forward(
                tf.constant(padded(rows)), tf.constant(positions, tf.int32)
            ).numpy()
            ends = np.cumsum([len(pieces[i]) for i in batch])[:-1]
            for i, part in zip(batch, np.split(states, ends, 1), strict=True):
                found[i] = part.mean(1, keepdims=True) if of_sentences else part
        return np.concatenate(found, axis=1)

    def _states_at(self, ids: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        """Computes states at positions, int32 [W, 2]: row and column."""
        output = self._network.encoder(**complete_ids({"input_ids": ids}))
        of_layers = [output.embedding_output, *output.all_layers]
        return tf.stack([tf.gather_nd(x, positions) for x in of_layers])


class Items(NamedTuple):
    """Items of a task; labels, groups and words are [W].

    Those of a group are in one sentence, or the two forms of one.
    """

    sentences: list[Words]
    labels: np.ndarray
    groups: np.ndarray
    words: np.ndarray | None


class Accuracies(NamedTuple):
    """Accuracies of a network's layers, and that of the one chosen on dev."""

    layers: list[Interval]
    best_layer: int
    best: Interval


class Findings(NamedTuple):
    """Accuracies on a task; a baseline or difference -> accuracy."""

    num_train: int
    num_test: int
    networks: Mapping[str, Accuracies]
    baselines: Mapping[str, Interval]
    differences: Mapping[str, Interval]


def run(config: AnalysisConfig) -> Report:
    """Probes the layers of a model and its twin, and compares them by CKA."""
    splits = {}
    for split in ("dev", "test") if config.dev else ("test",):
        found = examples.read_sentences(config, split)
        order = np.random.default_rng(config.seed).permutation(len(found))
        splits[split] = [found[i] for i in order]
    networks = {MODEL: load(config.model, config)}
    if config.twin:
        networks[TWIN] = load(config.twin, config, prefers_own=True)
    trained = list(networks)
    if config.dev:
        networks[UNTRAINED] = untrained(networks[MODEL], config.seed)
    encoders = {k: Encoder(x, config.batch_size) for k, x in networks.items()}
    findings = {}
    if config.dev:
        of_splits = {k: tasks(x, encoders, config) for k, x in splits.items()}
        for task, dev in of_splits["dev"].items():
            if task not in of_splits["test"]:
                raise UserError(f"--test has no {task}, which --dev has.")
            test = of_splits["test"][task]
            findings[task] = probe(task, encoders, dev, test, config)
    words = [sentence.words for sentence in splits["test"]]
    words = _fitting(words, encoders, CKA_WORDS)
    states = [encoders[name].states(words) for name in trained]
    return _report(findings, _similarities(trained, states, config), config)


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
        dtype=layers.policy_of(config.precision),
        max_seq_length=loading.row_length(
            config.max_seq_length, weights.max_seq_length, longest
        ),
    )


def untrained(network: EncoderWithHead, seed: int) -> EncoderWithHead:
    """Makes an encoder of the same sizes with initial weights."""
    reader = network.reader
    with seeds.seed_initializers(seed):
        return EncoderWithHead(
            network.config,
            reader.vocabulary,
            dtype=network.dtype_policy,
            do_lower_case=reader.do_lower_case,
            strip_accents=reader.strip_accents,
            max_seq_length=reader.max_seq_length,
        )


def _fitting(
    sentences: Sequence[Words], encoders: Mapping[str, Encoder], most: int
) -> list[Words]:
    """Cuts sentences to words that fit in each row, `most` words in all."""
    sizes = np.min([x.num_fitting(sentences) for x in encoders.values()], 0)
    before = np.cumsum(sizes) - sizes
    sizes = np.minimum(sizes, np.maximum(most - before, 0))
    return [x[:size] for x, size in zip(sentences, sizes, strict=True)]


def tasks(
    sentences: Sequence[examples.Sentence],
    encoders: Mapping[str, Encoder],
    config: AnalysisConfig,
) -> dict[str, Items]:
    """Returns the items of each task of a split."""
    found = {}
    for task in sorted({sentence.task for sentence in sentences}):
        some = [x for x in sentences if x.task == task]
        cut = _fitting([x.words for x in some], encoders, MAX_ITEMS)
        pairs = list(zip(cut, some, strict=True))
        sizes = list(map(len, cut))
        tags = [tag for x, full in pairs for tag in full.tags[: len(x)]]
        if tags:
            found[task] = Items(
                [x for x in cut if x],
                np.array(tags),
                np.repeat(np.arange(len(cut)), sizes),
                np.array(list(itertools.chain(*cut))),
            )
    random = np.random.default_rng(config.seed)
    forms = [x for s in sentences for x in swapped(s.words, random)]
    if forms:
        cut = _fitting(forms, encoders, sum(map(len, forms)))
        fits = np.array([len(x) == len(y) for x, y in zip(cut, forms)])  # noqa: B905 (equal lengths)
        kept = np.flatnonzero(fits.reshape(-1, 2).all(1))[: MAX_ITEMS // 2]
        if kept.size:
            chosen = [x for i in kept for x in forms[2 * i : 2 * i + 2]]
            labels = np.tile(["original", "swapped"], len(kept))
            groups = np.repeat(np.arange(len(kept)), 2)
            found[SWAP] = Items(chosen, labels, groups, None)
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
    task: str,
    encoders: Mapping[str, Encoder],
    dev: Items,
    test: Items,
    config: AnalysisConfig,
) -> Findings:
    """Fits the probes of a task, chooses layers on dev, and scores on test."""
    is_train = dev.groups % _VALIDATION != _VALIDATION - 1
    labels = dev.labels[is_train]
    if len({*labels}) < 2 or is_train.all():
        raise UserError(f"--dev has too few sentences or tags for {task}.")
    most_frequent, by_word = most_frequent_labels(
        labels, None if dev.words is None else dev.words[is_train]
    )
    is_right = {"most frequent label": test.labels == most_frequent}
    if test.words is not None:
        answers = [by_word.get(word, most_frequent) for word in test.words]
        name = "most frequent label of the word"
        is_right[name] = np.array(answers) == test.labels
    baselines, best_layers = list(is_right), {}
    for name, encoder in encoders.items():
        of_sentences = dev.words is None
        dev_states, test_states = (
            encoder.states(x.sentences, of_sentences=of_sentences)
            for x in (dev, test)
        )
        scores = []
        for number, (x, y) in enumerate(
            zip(dev_states, test_states, strict=True)
        ):
            fitted = fit_classifier(x[is_train], labels)
            scores.append(fitted.score(x[~is_train], dev.labels[~is_train]))
            is_right[name, number] = fitted.predict(y) == test.labels
        best_layers[name] = 1 + int(np.argmax(scores[1:]))
        is_right[name, "best"] = is_right[name, best_layers[name]]
    best = is_right[MODEL, "best"].astype(int)
    for other in [x for x in encoders if x != MODEL]:
        is_right[f"{MODEL} - {other}"] = best - is_right[other, "best"]
    found = accuracies(is_right, test.groups, config)
    return Findings(
        num_train=len(labels),
        num_test=len(test.labels),
        networks={
            name: Accuracies(
                [found[k] for k in found if k[0] == name and k[1] != "best"],
                best_layers[name],
                found[name, "best"],
            )
            for name in encoders
        },
        baselines={name: found[name] for name in baselines},
        differences={k: x for k, x in found.items() if " - " in k},
    )


def most_frequent_labels(
    labels: np.ndarray, words: np.ndarray | None
) -> tuple[str, dict[str, str]]:
    """Returns the most frequent label, and that of each word."""
    counts: dict[str, collections.Counter] = {}
    for word, label in zip(
        labels if words is None else words, labels, strict=True
    ):
        counts.setdefault(word, collections.Counter())[label] += 1
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
) -> dict[object, Interval]:
    """Computes the mean of each array; its interval resamples groups."""
    _, groups = np.unique(groups, return_inverse=True)
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


def _similarities(
    names: Sequence[str], states: Sequence[np.ndarray], config: AnalysisConfig
) -> dict[str, object]:
    """Computes CKA within and between networks, of states [S, W, H] each."""
    num_words = states[0].shape[1]
    size = min(MINIBATCH_WORDS, num_words)
    if size < 4:  # HSIC has no unbiased estimate
        raise UserError(f"--test has {num_words} words that fit in a row.")
    order = np.random.default_rng(config.seed).permutation(num_words)
    every_layer = list(itertools.chain(*states))
    criteria = np.array(
        [
            hsic([layer[order[start : start + size]] for layer in every_layer])
            for start in range(0, num_words - size + 1, size)
        ]
    )
    ends = np.cumsum([0, *map(len, states)])
    parts = {x: slice(*ends[i : i + 2]) for i, x in enumerate(names)}
    matrix = cka(criteria)
    pairs = itertools.combinations_with_replacement(names, 2)
    same_layer: list[Interval] = []
    if len(states) == 2 and len(states[0]) == len(states[1]):
        same_layer = bootstrap(
            lambda i: np.diagonal(cka(criteria[i]), len(states[0])),
            len(criteria),
            config,
        )
    return {
        "num_words": num_words,
        "cka": {f"{a}, {b}": matrix[parts[a], parts[b]] for a, b in pairs},
        "same_layer_cka": same_layer,
    }


def _report(
    findings: Mapping[str, Findings],
    similar: Mapping[str, object],
    config: AnalysisConfig,
) -> Report:
    matrices = similar["cka"]
    headline = {
        f"{task} accuracy, layer chosen on dev": x.networks[MODEL].best.value
        for task, x in findings.items()
    }
    if config.twin:
        last = matrices[f"{MODEL}, {TWIN}"][-1, -1]
        headline["CKA with twin, last layers"] = float(last)
    tables = [_table(task, x) for task, x in findings.items()]
    for names, matrix in matrices.items():
        title = (
            f"Linear CKA, unbiased, of layers: {names} (down, across), "
            f"{similar['num_words']:,} words"
        )
        rows = [[str(i), *map(float, row)] for i, row in enumerate(matrix)]
        header = ["layer", *map(str, range(matrix.shape[1]))]
        tables.append(Table(title, header, rows))
    if similar["same_layer_cka"]:
        title = "CKA of the same layer of both, 95 % interval over minibatches"
        rows = [
            [str(i), shown(x)] for i, x in enumerate(similar["same_layer_cka"])
        ]
        tables.append(Table(title, ["layer", "CKA"], rows))
    return Report(
        what="probes",
        headline=headline,
        results={"probes": findings, **similar},
        tables=tables,
        plots={
            f"probes_{task.replace(' ', '_')}": functools.partial(
                _draw, task=task, found=x
            )
            for task, x in findings.items()
        },
    )


def _table(task: str, found: Findings) -> Table:
    """Makes the table of a task: layers, those without context, baselines."""
    names = list(found.networks)
    depth = max(len(x.layers) for x in found.networks.values())
    rows = [
        [
            f"layer {i}" + ", no context" * (i == 0),
            *(
                shown(x.layers[i]) if i < len(x.layers) else ""
                for x in found.networks.values()
            ),
        ]
        for i in (*range(1, depth), 0)
    ]
    chosen = [
        f"{shown(x.best)} ({x.best_layer})" for x in found.networks.values()
    ]
    rows.insert(depth - 1, ["chosen on dev (layer)", *chosen])
    blank = [""] * (len(names) - 1)
    for name, x in {**found.baselines, **found.differences}.items():
        rows.append([name, shown(x), *blank])
    title = (
        f"Linear probes, {task}: accuracy on {found.num_test:,} of --test, "
        f"fitted on {found.num_train:,} of --dev; 95 % intervals over sentences"
    )
    return Table(title, ["", *names], rows)


def _draw(axes: object, task: str, found: Findings) -> None:
    """Draws the accuracies by layer, and a line for each baseline."""
    for name, x in found.networks.items():
        values, lows, highs = np.array(x.layers).T
        axes.plot(values, "o-", label=name)
        axes.fill_between(range(len(values)), lows, highs, alpha=0.2)
    for (name, x), style in zip(found.baselines.items(), ":-.", strict=False):
        axes.axhline(x.value, color="grey", linestyle=style, label=name)
    axes.set(
        title=f"Linear probes: {task}",
        xlabel="layer (0: embeddings)",
        ylabel="accuracy",
    )
    axes.legend()
