"""Signatures of pre-trained networks, of a run or of any checkpoint.

Every network, discriminator, generator, corrector or encoder alone, has the
signatures "serving_default" and "encode"; one that scores texts has "score".
docs/serving.md lists their inputs and outputs.

Letters in shapes: B rows, L tokens in a row, M masks, W windows, H hidden, V
vocabulary.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf
from etils import epath

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.weights import select
from electra_tf.model.modeling import BertModel
from electra_tf.model.networks import (
    ElectraDiscriminator,
    ElectraGenerator,
    EncoderWithHead,
)
from electra_tf.model.text_reader import Ids, TextReader, windows
from electra_tf.serving import saved_models
from electra_tf.serving.saved_models import Outputs
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """An encoder with a head, which answers by `predict`, if it has one.

    `predict_for_text` answers in place of `predict` if the ids come from text;
    `log_probs` returns float32 [B, L], nats, valid within the text.
    """

    encoder: BertModel
    layers: Sequence[keras.layers.Layer]
    reader: TextReader
    predict: Callable[[Ids], Outputs] | None = None
    predict_for_text: Callable[[Ids], Outputs] | None = None
    log_probs: Callable[[Ids], tf.Tensor] | None = None

    def encode(self, ids: Ids) -> Outputs:
        """Returns the encoder's states, [B, L, H], and that of [CLS]."""
        states = self.encoder(**ids)
        return {
            "sequence_output": states.sequence_output,
            "pooled_output": states.pooled_output,
        }

    def predict_text(self, text: tf.Tensor) -> Outputs:
        ids = self.reader.read(text)
        answer = self.predict_for_text or self.predict or self.encode
        outputs = answer(ids)
        return {"tokens": self.reader.tokens(ids), **_echoed(ids), **outputs}

    def encode_text(self, text: tf.Tensor) -> Outputs:
        ids = self.reader.read(text)
        return {**_echoed(ids), **self.encode(ids)}

    def score(self, text: tf.Tensor) -> Outputs:
        """Scores the word pieces of texts [B] by `log_probs`.

        A text that is longer than a row is read in overlapping windows.
        """
        pieces = self.reader.tokenize(text)  # [B, (pieces)]
        num_tokens = tf.cast(pieces.row_lengths(), tf.int32)
        spans = windows(num_tokens, self.reader.max_seq_length - 2)
        begins = tf.cast(tf.gather(pieces.row_starts(), spans.texts), tf.int32)
        starts, ends, score_starts, score_ends = (begins + x for x in spans[1:])
        indices = tf.ragged.range(starts, ends)  # [W, (pieces)]
        ids = self.reader.rows(tf.gather(pieces.values, indices))
        indices = indices.to_tensor(-1)  # [W, L - 2]
        is_scored = indices >= score_starts[:, tf.newaxis]
        is_scored &= indices < score_ends[:, tf.newaxis]

        def of_block(rows: slice) -> list[tf.Tensor]:
            values = self.log_probs({name: x[rows] for name, x in ids.items()})
            return [tf.boolean_mask(values[:, 1:-1], is_scored[rows])]

        (scores,) = saved_models.in_blocks(
            tf.shape(indices)[0], of_block, [tf.TensorSpec([None], tf.float32)]
        )
        values = pieces.with_values(scores)
        total = tf.reduce_sum(values, 1)
        tokens = tf.gather(self.reader.vocabulary.tokens, pieces.values)
        return {
            "tokens": pieces.with_values(tokens).to_tensor(),
            "log_probs": values.to_tensor(),
            "num_tokens": num_tokens,
            "total": total,
            "mean": total / tf.cast(tf.maximum(num_tokens, 1), tf.float32),
        }


def _echoed(ids: Ids) -> Outputs:
    return {name: ids[name] for name in ("input_ids", "input_mask")}


def export(
    networks: Mapping[str, Network], directory: str | os.PathLike[str]
) -> list[epath.Path]:
    paths = []
    for name, network in networks.items():
        of_text = {
            "serving_default": network.predict_text,
            "encode": network.encode_text,
        }
        predict = network.predict or network.encode
        if network.log_probs:
            of_text["score"] = network.score
        paths += saved_models.export(
            epath.Path(directory) / name,
            of_text,
            {"serving_default": predict, "encode": network.encode},
            assets=network.reader.tokenizer.assets,
            layers=network.layers,
        )
    return paths


def of_checkpoint(path: str, vocab_file: str = "") -> dict[str, Network]:
    weights = loading.read_with_vocabulary(path, vocab_file)
    if weights.objective == "electric" or "corrector" in weights.networks:
        raise UserError(
            f"{weights.origin} has a head that only its run can export: set "
            "--data_dir and --model_name"
        )
    temperature = temperature_of(weights.origin, weights.step)
    networks = {}
    for name in weights.networks:
        part = select(weights, name)
        longest = part.architecture.encoder.max_position_embeddings
        length = loading.row_length(0, weights.max_seq_length, longest)
        network = loading.make(part, max_seq_length=length)
        known = "encoder" if network.head is None else name
        networks[known] = of_network(network, temperature)
    return networks


def temperature_of(path: str, step: int) -> float:
    """Returns the temperature beside a checkpoint, 1 if there is none."""
    stored = loading.read_calibration(path, step)
    return stored.temperature if stored else 1.0


def of_network(network: EncoderWithHead, temperature: float = 1.0) -> Network:
    """Returns what a standalone network answers."""
    encoder, reader = network.encoder, network.reader
    if isinstance(network, ElectraGenerator):
        return mask_filler(network, reader)
    if isinstance(network, ElectraDiscriminator):
        return detector(
            encoder,
            [encoder, network.head],
            reader,
            lambda ids: network.head(encoder(**ids).sequence_output),
            temperature,
        )
    return Network(encoder=encoder, layers=[encoder], reader=reader)


def detector(
    encoder: BertModel,
    layers: Sequence[keras.layers.Layer],
    reader: TextReader,
    logits: Callable[[Ids], tf.Tensor],
    temperature: float = 1.0,
) -> Network:
    """Returns what a discriminator answers: P(replaced), 0 on padding."""

    def predict(ids: Ids) -> Outputs:
        replaced = tf.sigmoid(logits(ids) / temperature)  # [B, L]
        is_token = ids["input_mask"] > 0
        return {"probability_replaced": tf.where(is_token, replaced, 0.0)}

    return Network(
        encoder=encoder,
        layers=layers,
        reader=reader,
        predict=predict,
        log_probs=lambda ids: tf.math.log_sigmoid(-logits(ids) / temperature),
    )


def mask_filler(generator: ElectraGenerator, reader: TextReader) -> Network:
    """Returns what a generator answers: of text the best tokens at masks."""
    encoder, vocabulary = generator.encoder, reader.vocabulary

    def predict(ids: Ids) -> Outputs:
        return {"logits": generator.score(encoder(**ids).sequence_output)}

    def fill(ids: Ids) -> Outputs:
        is_mask = ids["input_ids"] == vocabulary.mask_id
        states = encoder(**ids).sequence_output
        logits = generator.score(tf.boolean_mask(states, is_mask))  # [M, V]
        return saved_models.top_tokens(logits, is_mask, vocabulary.tokens)

    return Network(
        encoder=encoder,
        layers=[encoder, generator.head],
        reader=reader,
        predict=predict,
        predict_for_text=fill,
    )
