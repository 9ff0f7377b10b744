"""Linear probes of each layer, and the similarity (CKA) of layers.

    part of speech, chunk   of a word, from its state (.conllu, CoNLL-2000)
    word swap               whether two neighbouring words of a sentence are
                            exchanged, from the mean of its words' states

A logistic regression of each layer is fitted on --dev and scored on --test; a
fifth of the --dev sentences, held out from the fit, chooses the best layer. A
word's state is its first word piece's.

Linear centred kernel alignment (CKA) is the Hilbert-Schmidt independence
criterion (HSIC) of two layers, divided by the root of the product of their own.
HSIC is estimated without bias, and averaged over minibatches of words first.

Letters in shapes: S layers including the embeddings, W items to classify, n
words in a minibatch, H hidden.

Source: Kornblith et al., 2019 (CKA); Song et al., 2012, equation 5 (unbiased
HSIC); Nguyen et al., 2021, section 3 (minibatches); Conneau et al., 2018, task
BShift (word swaps of sentences of 5 to 28 words).
"""

import collections
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from keras.utils import pad_sequences

from electra_tf.analysis import examples
from electra_tf.analysis.examples import AnnotatedText
from electra_tf.analysis.networks import ROWS_SPEC
from electra_tf.analysis.report import Interval, Report, Table, bootstrap
from electra_tf.checkpoint import loading
from electra_tf.checkpoint.weights import select
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data import tables
from electra_tf.data.packing import batches
from electra_tf.model import layers
from electra_tf.model.networks import EncoderWithHead, complete_ids
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

Words = tuple[str, ...]

SWAP = "word swap"
BASELINE = "most frequent label of the word"
MAX_ITEMS = 10_000  # of a task in either split: states are in memory
CKA_WORDS, MINIBATCH_WORDS = 4096, 256
UNTRAINED_SEED = 2**31  # added, so that no run began with these weights


class Encoder:
    """Computes the states of words in each layer of a network."""

    def __init__(self, network: EncoderWithHead, batch_size: int) -> None:
        self._network = network
        self._batch_size = batch_size

    def rows(
        self, sentences: Sequence[Words]
    ) -> list[tuple[list[int], list[int]]]:
        """Returns each sentence's row of ids and where its words start."""
        reader = self._network.reader
        words = tf.constant([*itertools.chain(*sentences)])
        pieces = iter(reader.tokenize(words).to_list())
        rows = []
        for sentence in sentences:
            ids, starts = [reader.vocabulary.cls_id], []
            for _ in sentence:
                starts.append(len(ids))
                ids += next(pieces) or [reader.vocabulary.unk_id]
            rows.append(([*ids, reader.vocabulary.sep_id], starts))
        return rows

    def can_read(self, sentences: Sequence[Words]) -> list[bool]:
        longest = self._network.reader.max_seq_length
        return [len(ids) <= longest for ids, _ in self.rows(sentences)]

    def states(
        self, sentences: Sequence[Words], *, of_sentences: bool = False
    ) -> np.ndarray:
        """Computes the states of words, or their means, [S, W, H]."""
        rows = self.rows(sentences)
        states: list[Any] = [None] * len(rows)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i][0]))
        for batch in batches(order, self._batch_size):
            ids = pad_sequences([rows[i][0] for i in batch], padding="post")
            of_rows = self._forward(tf.constant(ids)).numpy()
            for row, i in enumerate(batch):
                states[i] = of_rows[:, row, rows[i][1]]  # [S, words, H]
                if of_sentences:
                    states[i] = states[i].mean(1, keepdims=True)
        return np.concatenate(states, 1)

    @tf.function(input_signature=[ROWS_SPEC], autograph=False)
    def _forward(self, ids: tf.Tensor) -> tf.Tensor:
        """Computes the states of all layers, [S, B, L, H]."""
        output = self._network.encoder(**complete_ids({"input_ids": ids}))
        return tf.stack([output.embedding_output, *output.all_layers])


class Items(NamedTuple):
    """Labels to predict; a group is a sentence, or the two forms of one."""

    sentences: list[Words]
    labels: np.ndarray  # [W]
    groups: np.ndarray  # [W]
    words: np.ndarray  # [W], empty words if items are whole sentences


def run(config: AnalysisConfig) -> Report:
    """Probes the layers of a model and its twin, and compares them by CKA."""
    names = ("dev", "test") if config.dev else ("test",)
    splits = {name: examples.read_tagged(config, name) for name in names}
    networks = {"model": _load(config.model, config)}
    if config.twin:
        networks["twin"] = _load(config.twin, config)
    if config.dev:
        sizes = networks["model"].get_config()
        with seeds.seed_initializers(UNTRAINED_SEED + config.seed):
            networks["untrained"] = EncoderWithHead.from_config(sizes)
    encoders = {k: Encoder(x, config.batch_size) for k, x in networks.items()}
    for name, texts in splits.items():
        words = [text.words for text in texts]
        fits = np.all([x.can_read(words) for x in encoders.values()], 0)
        order = np.random.default_rng(config.seed).permutation(len(words))
        splits[name] = [texts[i] for i in order if fits[i]]
    probed = {}
    if config.dev:
        test = tasks(splits["test"], config.seed)
        for task, dev in tasks(splits["dev"], config.seed).items():
            if task not in test:
                raise UserError(f"--test has no {task}, which --dev has.")
            probed[task] = probe(encoders, dev, test[task], config)
    pair = ("model", "twin" if config.twin else "model")
    words = [text.words for text in _first(splits["test"], CKA_WORDS)]
    first, second = (encoders[name].states(words) for name in pair)
    matrix = cka([*first, *second], config.seed)[: len(first), len(first) :]
    rows = {
        f"layer {i}": {str(j): x for j, x in enumerate(row)}
        for i, row in enumerate(matrix)
    }
    title = f"Linear CKA, unbiased, of layers: {', '.join(pair)} (down, across)"
    tables = [_table(task, x) for task, x in probed.items()]
    results = {"probes": probed, "cka": {", ".join(pair): matrix}}
    return Report(results, [*tables, Table(title, rows)])


def _load(path: str, config: AnalysisConfig) -> EncoderWithHead:
    weights = loading.read_with_vocabulary(path, config.vocab_file)
    chosen = select(weights, weights.networks[0])
    length = loading.row_length(
        config.max_seq_length,
        weights.max_seq_length,
        chosen.architecture.encoder.max_position_embeddings,
    )
    policy = layers.POLICIES[config.precision]
    return loading.make(chosen, dtype=policy, max_seq_length=length)


def _first(texts: Sequence[AnnotatedText], num_words: int) -> list:
    """Returns the first sentences, of at most `num_words` in all."""
    ends = np.cumsum([len(text.words) for text in texts])
    return list(texts[: np.searchsorted(ends, num_words, "right")])


def tasks(texts: Sequence[AnnotatedText], seed: int) -> dict[str, Items]:
    by_task = collections.defaultdict(list)
    for text in texts:
        is_conllu = tables.file_ending(text.path) == ".conllu"
        by_task["part of speech" if is_conllu else "chunk"].append(text)
    items = {}
    for task in sorted(by_task):
        some = _first(by_task[task], MAX_ITEMS)
        items[task] = Items(
            [x.words for x in some],
            np.array([tag for x in some for tag in x.tags]),
            np.repeat(np.arange(len(some)), [len(x.words) for x in some]),
            np.array([word for x in some for word in x.words]),
        )
    random = np.random.default_rng(seed)
    forms = [form for x in texts for form in swapped(x.words, random)]
    if forms := forms[:MAX_ITEMS]:
        labels = np.tile(["original", "swapped"], len(forms) // 2)
        groups = np.repeat(np.arange(len(forms) // 2), 2)
        items[SWAP] = Items(forms, labels, groups, np.full(len(forms), ""))
    return items


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
    if not indices or not 5 <= len(words) <= 28:
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
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    is_train = dev.groups % 5 != 4
    labels, held_out = dev.labels[is_train], dev.labels[~is_train]
    sizes = np.bincount(test.groups)

    def accuracies(answers: Sequence[np.ndarray]) -> list[Interval]:
        """Computes the mean over items; its interval resamples groups."""
        sums = np.array([np.bincount(test.groups, x) for x in answers])
        return bootstrap(
            lambda i: sums[:, i].sum(1) / sizes[i].sum(), len(sizes), config
        )

    networks = {}
    for name, encoder in encoders.items():
        all_states = (
            encoder.states(x.sentences, of_sentences=not any(x.words))
            for x in (dev, test)
        )
        scores, answers = [], []
        for states, test_states in zip(*all_states, strict=True):
            # A tenth of this tolerance takes twice the time for no gain.
            regression = LogisticRegression(max_iter=1000, tol=1e-3)
            fitted = make_pipeline(StandardScaler(), regression)
            fitted.fit(states[is_train], labels)
            scores.append(fitted.score(states[~is_train], held_out))
            answers.append(fitted.predict(test_states) == test.labels)
        best = 1 + int(np.argmax(scores[1:]))
        by_layer = accuracies(answers)
        networks[name] = {"layers": by_layer, "best_layer": best}
        networks[name]["best"] = by_layer[best]
    frequent = most_frequent(dev.words[is_train], labels, test.words)
    (baseline,) = accuracies([frequent == test.labels])
    return {
        "num_train": len(labels),
        "num_test": len(test.labels),
        "networks": networks,
        "baselines": {BASELINE: baseline},
    }


def most_frequent(
    words: np.ndarray, labels: np.ndarray, test_words: np.ndarray
) -> np.ndarray:
    """Predicts the most frequent label of each word, or of all if unknown."""
    of_word = collections.defaultdict(collections.Counter)
    for word, label in zip(words, labels, strict=True):
        of_word[word][label] += 1
    of_all = collections.Counter(labels)
    counts = [of_word.get(word, of_all) for word in test_words]
    return np.array([max(x, key=x.get) for x in counts])


def hsic(states: Sequence[np.ndarray]) -> np.ndarray:
    """Estimates HSIC, [S, S], of all pairs of layers [n, H] without bias."""
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


def cka(layers: Sequence[np.ndarray], seed: int) -> np.ndarray:
    """Computes CKA, [S, S], of the states of words in layers, [W, H] each."""
    num_words = len(layers[0])
    size = min(MINIBATCH_WORDS, num_words)
    order = np.random.default_rng(seed).permutation(num_words)
    minibatches = order[: num_words - num_words % size].reshape(-1, size)
    criteria = np.mean([hsic([x[i] for x in layers]) for i in minibatches], 0)
    own = np.sqrt(np.maximum(np.diagonal(criteria), 0))
    scale = np.where(own > 0, own, np.nan)
    return criteria / np.outer(scale, scale)


def _table(task: str, probed: Mapping[str, Any]) -> Table:
    rows = collections.defaultdict(dict)
    for name, x in probed["networks"].items():
        for layer, accuracy in enumerate(x["layers"]):
            rows[f"layer {layer}"][name] = accuracy
        rows["best layer"][name] = x["best_layer"]
        rows["best, chosen on dev"][name] = x["best"]
    rows[BASELINE] = {"model": probed["baselines"][BASELINE]}
    title = (
        f"Linear probes, {task}: accuracy on {probed['num_test']:,} of --test, "
        f"fitted on {probed['num_train']:,} of --dev; 95 % intervals over "
        "sentences; layer 0 has no context"
    )
    return Table(title, rows)
