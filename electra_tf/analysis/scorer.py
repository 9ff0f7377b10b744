"""Scores of texts by the networks of a checkpoint.

Every score is a log-probability of a token in its context. The score of a text
is their sum or, to compare texts of different lengths, their mean:

    discriminator   log P(original), of ELECTRA's discriminator; one pass
    electric        -E, Electric's unnormalised log-probability; one pass
    two_tower       log p(x_t | others) by ELECTRA with two towers, appendix G
                    of the paper; one pass
    mlm             log p(x_t | others) by the network that fills masks, with
                    this token masked; a pass for each token
"""

import collections
import itertools
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from keras.utils import pad_sequences
from scipy import special

from electra_tf.analysis import networks as scoring_networks
from electra_tf.analysis.networks import ScoringNetworks
from electra_tf.analysis.scores import Repair, TextScores, TokenScore
from electra_tf.checkpoint import loading
from electra_tf.data.packing import batches
from electra_tf.model import graph_tokenization, tensor_ops, text_reader
from electra_tf.util import console
from electra_tf.util.errors import UserError

MAX_TEXTS = 512
MAX_CHARACTERS = 2**18
"""Greatest size of a block of texts; its last text may exceed it."""


class _Row(NamedTuple):
    """A window of a text, and which of its tokens it scores."""

    ids: Sequence[int]
    positions: np.ndarray  # in the row
    tokens: np.ndarray  # in the block of texts


class Scorer:
    """Scores every token of texts; long texts are read in windows.

    Example:
      path = "data/demo/models/electra_demo"
      scorer = electra_tf.Scorer.from_checkpoint(path)
      (text,) = scorer.score(["the chef ate the meal"])
      text.mean("discriminator")  # nats
      [(token.token, token.probability_replaced) for token in text.tokens]

    Args:
      networks: the networks of a checkpoint.
      batch_size: rows per batch; does not change the scores.
      max_seq_length: tokens in a row, [CLS] and [SEP] included. Default: the
        training's, or at most 512.

    Attributes:
      networks: see `Args`.
      scores: names of the available scores, the model's own first.
      directory: holds the checkpoint and its calibration.
      step: updates of the checkpoint; 0 if unknown.
      calibration: the discriminator's calibration for this step, or None.
      max_seq_length: tokens in a row.

    Raises:
      UserError: if the networks cannot read rows of `max_seq_length`.
    """

    def __init__(
        self,
        networks: ScoringNetworks,
        *,
        batch_size: int = 32,
        max_seq_length: int = 0,
    ) -> None:
        self.networks = networks
        self.batch_size = batch_size
        self.max_seq_length = loading.row_length(
            max_seq_length,
            networks.max_seq_length,
            networks.max_position_embeddings,
        )
        self.scores = networks.scores
        self.step = networks.step
        self.directory = loading.directory_of(networks.origin)
        self.calibration = None
        if "discriminator" in self.scores:
            self.calibration = loading.read_calibration(
                networks.origin, networks.step
            )
        self._tokenize = graph_tokenization.span_tokenizer(
            networks.vocabulary, **networks.tokenizer_options
        )

    @classmethod
    def from_checkpoint(
        cls,
        path: str | os.PathLike[str],
        *,
        generator: str = "",
        vocab_file: str = "",
        batch_size: int = 32,
        max_seq_length: int = 0,
        precision: str = "float32",
    ) -> Self:
        """Makes a scorer from a checkpoint.

        Args:
          path: checkpoint of a run, of the original code or of Hugging Face.
          generator: checkpoint with the same vocabulary whose network fills
            masks. Default: the model's own generator.
          vocab_file: vocabulary file. Default: the one beside the checkpoint.
          batch_size: see the class.
          max_seq_length: see the class.
          precision: precision of matrix products, "float32" or "bfloat16".

        Raises:
          UserError: if the checkpoint is unreadable or offers no score.
        """
        networks = scoring_networks.ScoringNetworks(
            os.fspath(path),
            generator=generator,
            vocab_file=vocab_file,
            precision=precision,
        )
        return cls(
            networks, batch_size=batch_size, max_seq_length=max_seq_length
        )

    @classmethod
    def from_config(cls, config: Any) -> Self:  # noqa: ANN401
        """Makes a scorer of an `AnalysisConfig` or a `ScoreConfig`."""
        options = ("generator", "vocab_file", "precision")
        options += ("batch_size", "max_seq_length")
        values = {name: getattr(config, name) for name in options}
        return cls.from_checkpoint(config.model, **values)

    @property
    def temperature(self) -> float:
        """Temperature of the discriminator; 1 if it was not calibrated.

        P(replaced) = sigmoid(logit / temperature)
        """
        return self.calibration.temperature if self.calibration else 1.0

    def score(
        self,
        texts: Iterable[str],
        *,
        scores: Sequence[str] | str = (),
        num_repairs: int = 0,
    ) -> Iterator[TextScores]:
        """Yields the scores of each text; one block is in memory at a time.

        Args:
          texts: any number of texts.
          scores: names among `self.scores`, or one name. Default: all one-pass
            scores, else mlm.
          num_repairs: replacements to suggest for each token; like mlm, these
            need a forward pass for each token.

        Raises:
          UserError: if the model lacks a score or a network that fills masks.
        """
        if isinstance(texts, str):
            raise UserError(f"Put a single text in a list: {texts!r}.")
        scores = [scores] if isinstance(scores, str) else scores
        wanted = [*scores, *["mlm"] * bool(num_repairs)]
        if lacking := [name for name in wanted if name not in self.scores]:
            raise UserError(
                f"{self.networks.origin} scores by {', '.join(self.scores)}, "
                f"not by {lacking[0]}."
            )
        chosen = tuple(scores) or self.default_scores
        blocks = batches(texts, MAX_TEXTS, size=len, enough=MAX_CHARACTERS)
        return itertools.chain.from_iterable(
            self._score_block(block, chosen, num_repairs) for block in blocks
        )

    @property
    def default_scores(self) -> tuple[str, ...]:
        """The scores that need one forward pass, or else mlm."""
        return tuple(x for x in self.scores if x != "mlm") or self.scores

    def _score_block(
        self, texts: Sequence[str], scores: Sequence[str], num_repairs: int
    ) -> Iterator[TextScores]:
        networks, vocabulary = self.networks, self.networks.vocabulary
        spans = self._tokenize(texts)
        num_tokens = sum(map(len, spans))
        rows = sorted(self._rows(spans), key=lambda row: len(row.ids))
        # Name of an output -> float64 [tokens of the block].
        columns = collections.defaultdict(lambda: np.zeros(num_tokens))
        repairs: list[tuple[Repair, ...]] = [()] * num_tokens
        if networks.discriminator is not None:
            self._detect(rows, columns)
        if num_repairs or "mlm" in scores:
            self._predict_masked(rows, columns["mlm"], repairs, num_repairs)
        probabilities = [None] * num_tokens
        if networks.gives_energies:
            columns["electric"] = -columns["logits"]
        elif networks.discriminator is not None:
            logits = columns["logits"] / self.temperature
            columns["discriminator"] = -np.logaddexp(0.0, logits)
            probabilities = special.expit(logits).tolist()
        values = {name: columns[name].tolist() for name in scores}
        place = itertools.count()  # of a token in the block
        for text, tokens in zip(texts, spans, strict=True):
            in_bytes = graph_tokenization.byte_offsets(text)
            scored = tuple(
                TokenScore(
                    token=vocabulary.tokens[span.token_id],
                    start=span.start,
                    end=span.end,
                    start_byte=int(in_bytes[span.start]),
                    end_byte=int(in_bytes[span.end]),
                    probability_replaced=probabilities[t],
                    log_probs={name: x[t] for name, x in values.items()},
                    repairs=repairs[t],
                )
                for span, t in zip(tokens, place, strict=False)
            )
            yield TextScores(text, scored)

    def _rows(
        self, spans: Sequence[Sequence[graph_tokenization.TokenSpan]]
    ) -> Iterator[_Row]:
        vocabulary = self.networks.vocabulary
        sizes = np.array([len(tokens) for tokens in spans], np.int32)
        before = np.cumsum(sizes) - sizes  # tokens of the texts before
        windows = text_reader.windows(sizes, self.max_seq_length - 2)
        for text, start, end, first, stop in np.stack(windows, 1).tolist():
            ids = [token.token_id for token in spans[text][start:end]]
            yield _Row(
                [vocabulary.cls_id, *ids, vocabulary.sep_id],
                np.arange(1 + first - start, 1 + stop - start),
                np.arange(before[text] + first, before[text] + stop),
            )

    def _detect(
        self, rows: Sequence[_Row], columns: dict[str, np.ndarray]
    ) -> None:
        """Fills in the outputs of one forward pass."""
        for batch in batches(rows, self.batch_size):
            ids = pad_sequences([row.ids for row in batch], padding="post")
            outputs = self.networks.detect(ids)
            for name, array in outputs.items():
                for row, line in zip(batch, array, strict=True):
                    columns[name][row.tokens] = line[row.positions]

    def _predict_masked(
        self,
        rows: Sequence[_Row],
        column: np.ndarray,
        repairs: list[tuple[Repair, ...]],
        num_repairs: int,
    ) -> None:
        """Fills in mlm and the repairs: one forward pass for each token."""
        pieces = self.networks.vocabulary.tokens
        masks = (
            (row.ids, *place)
            for row in rows
            for place in zip(row.positions, row.tokens, strict=True)
        )
        for batch in batches(masks, self.batch_size):
            ids, positions, tokens = zip(*batch, strict=True)
            predictions = self.networks.predict_masked(
                pad_sequences(ids, padding="post"),
                np.array(positions, np.int32),
                num_repairs,
            )
            for token, log_prob, best, log_probs in zip(
                tokens, *predictions, strict=True
            ):
                column[token] = log_prob
                repairs[token] = tuple(
                    Repair(pieces[i], float(np.exp(x)))
                    for i, x in zip(best, log_probs, strict=True)
                    if x > tensor_ops.ZERO_PROB_LOGIT
                )


def score_texts(
    scorer: Scorer, texts: Sequence[str], scores: Sequence[str]
) -> Iterator[TextScores]:
    """Yields the scores of each text, and prints the progress periodically."""
    periodic, start = console.Periodic(console.say), time.monotonic()
    for done, text_scores in enumerate(scorer.score(texts, scores=scores), 1):
        yield text_scores
        rate = done / (time.monotonic() - start)
        line = f"Scored {done:,} of {len(texts):,} texts, {rate:,.0f} a second"
        periodic(lambda line=line: line)


def score_sentences(
    scorer: Scorer, texts: Sequence[str], scores: Sequence[str]
) -> dict[str, np.ndarray]:
    """Scores texts by total and mean; equal tokens get equal scores."""
    of_text: dict[str, list[float]] = {}
    of_tokens: dict[tuple[str, ...], list[float]] = {}
    for text in score_texts(scorer, list(dict.fromkeys(texts)), scores):
        tokens = tuple(token.token for token in text.tokens)
        values = [-np.inf] * 2 * len(scores)
        if tokens:
            values = [f(x) for x in scores for f in (text.total, text.mean)]
        # Equal tokens must tie, though rounding differs from batch to batch.
        of_text[text.text] = of_tokens.setdefault(tokens, values)
    titles = [f"{x}, {form}" for x in scores for form in ("total", "mean")]
    rows = np.reshape([of_text[text] for text in texts], (-1, len(titles)))
    return dict(zip(titles, rows.T, strict=True))
