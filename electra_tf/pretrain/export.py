"""Writes networks as SavedModels that answer where electra_tf is not installed.

    <directory>/discriminator/text/1    strings in, tokenized in the graph
    <directory>/discriminator/ids/1     ids in
    <directory>/generator/text/1
    <directory>/generator/ids/1
    <directory>/corrector/...           in place of the discriminator, from the
                                        objectives that predict every token

`text` needs the operations of tensorflow_text: import it before loading. `ids`
has TensorFlow's own only and runs in programs that cannot load others. A masked
language model has a generator and no discriminator; a generator of two towers,
which fills no masks, is left out.

Each has two signatures. "encode" returns

    sequence_output float32 [B, L, H], pooled_output float32 [B, H]

and "serving_default"

    discriminator       probability_replaced float32 [B, L], 0 on padding; of
                        electric log_probability float32 [B, L], each token's
                        given all others, unnormalised, in nats; 0 on padding,
                        [CLS], [SEP] and [MASK]
    generator, of ids   logits float32 [B, L, V]
    generator, of text  top_tokens string [B, L, 10] and top_probabilities
                        float32 [B, L, 10] at each mask; "" and 0 elsewhere
    corrector, of ids   log_probabilities float32 [B, L, V]
    corrector, of text  as the generator, but at each token of the text

Those of `ids` read `input_ids`, `input_mask` and `segment_ids`, int32 [B, L],
with L up to the number of position embeddings; of a training on packed rows
`input_mask` may number the documents of a row. Those of `text` read `text`,
string [B], cut it to the model's `max_seq_length`, pad to the longest row, and
return `input_ids` and `input_mask`, int32 [B, L], as well; "serving_default"
also `tokens`, string [B, L], "" on padding.

All compute in float32, whatever the training did.

Differs: to a generator "[MASK]" in text is a mask; the original's tokenizer has
no such word and splits it in three.
"""

import abc
import dataclasses
import math
import pathlib

import keras
import tensorflow as tf

from electra_tf.model.graph_tokenization import make_tokenizer
from electra_tf.model.modeling import BertModel
from electra_tf.pretrain import model_card, pretrain_helpers
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.objectives.replace_mlm import ReplaceMlm
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.serving import saved_models
from electra_tf.serving.saved_models import Endpoints, Outputs

_NUM_TOP = 10
_TEXT = [tf.TensorSpec([None], tf.string, "text")]
_IDS = [tf.TensorSpec([None, None], tf.int32, name) for name in Inputs._fields]


def export(
    model: PretrainingModel, directory: pathlib.Path
) -> list[pathlib.Path]:
    """Writes each network of a model as two SavedModels.

    An older SavedModel is replaced only by one that is complete.

    Args:
      model: with the weights to export. Its objective's traits say what its
        main network `answers`; `generator_predictions` stands on `generator`,
        or without one on `electra`.
      directory: where they go, each into a directory of its own.

    Returns:
      The directory of each SavedModel.

    Raises:
      UserError: if `directory` cannot be written to.
    """
    written = []
    for name, network in _networks(_in_float32(model)).items():
        for kind, spec, endpoints in (
            ("text", _TEXT, _text_endpoints(network)),
            ("ids", _IDS, _ids_endpoints(network)),
        ):
            path = directory / name / kind / "1"
            assets = network.reader.assets if kind == "text" else []
            saved_models.write(path, endpoints, spec, assets)
            written.append(path)
    _write_card(model, directory)
    return written


def _in_float32(model: PretrainingModel) -> PretrainingModel:
    """Returns the model, or one with its weights that rounds no product."""
    training = model.config.training
    if training.precision == "float32":
        return model
    training = dataclasses.replace(training, precision="float32")
    config = dataclasses.replace(model.config, training=training)
    twin = type(model)(config, model.vocabulary)
    twin.set_weights(model.get_weights())
    return twin


class TextReader:
    """Turns text into rows of ids: [CLS] word pieces [SEP].

    Args:
      model: whose vocabulary and configuration to follow.
    """

    def __init__(self, model: PretrainingModel) -> None:
        config = model.config.corpus
        self.vocabulary = model.vocabulary
        self.max_seq_length = config.max_seq_length
        self.tokenizer = make_tokenizer(
            model.vocabulary, config.do_lower_case, config.strip_accents
        )

    @property
    def assets(self) -> list[tf.Module]:
        """What the tokenizer needs beside its graph."""
        is_asset = isinstance(self.tokenizer, tf.Module)
        return [self.tokenizer] if is_asset else []

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of the word pieces, int32 [B, (pieces)]."""
        return self.tokenizer.tokenize(text)

    def tokenize_with_masks(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the same, but the mask's id for each "[MASK]"."""
        parts = tf.strings.split(text, "[MASK]")  # [B, (parts)]
        pieces = self.tokenize(parts.values)  # [all parts, (pieces)]
        masks = tf.fill([pieces.nrows(), 1], self.vocabulary.mask_id)
        pieces = tf.concat([masks, pieces], axis=1)  # a mask before each part
        return parts.with_values(pieces).merge_dims(1, 2)[:, 1:]  # or between

    def rows(self, pieces: tf.RaggedTensor) -> Inputs:
        """Cuts to `max_seq_length` and pads to the longest row."""
        column = [pieces.nrows(), 1]
        first = tf.fill(column, self.vocabulary.cls_id)
        last = tf.fill(column, self.vocabulary.sep_id)
        pieces = pieces[:, : self.max_seq_length - 2]
        ids = tf.concat([first, pieces, last], axis=1)
        input_ids = ids.to_tensor()  # [B, L]
        input_mask = tf.ones_like(ids).to_tensor()
        return Inputs(input_ids, input_mask, tf.zeros_like(input_ids))

    def tokens(self, inputs: Inputs) -> tf.Tensor:
        """Returns the word pieces, string [B, L], "" on padding."""
        tokens = tf.gather(self.vocabulary.tokens, inputs.input_ids)
        return tf.where(inputs.is_real, tokens, "")


class Network(abc.ABC):
    """An encoder with a head, and what it answers.

    Args:
      encoder: reads ids.
      head: reads the encoder's states.
      reader: reads text.
    """

    def __init__(
        self, encoder: BertModel, head: keras.layers.Layer, reader: TextReader
    ) -> None:
        self.encoder = encoder
        self.head = head
        self.layers = (encoder, head)
        self.reader = reader

    def read(self, text: tf.Tensor) -> Inputs:
        """Turns text, string [B], into ids."""
        return self.reader.rows(self.reader.tokenize(text))

    def encode(self, inputs: Inputs) -> Outputs:
        """Returns the encoder's states."""
        output = self.encoder(*inputs)
        return {
            "sequence_output": output.sequence_output,
            "pooled_output": output.pooled_output,
        }

    @abc.abstractmethod
    def predict(self, inputs: Inputs) -> Outputs:
        """Returns what the head answers to ids."""

    def top(self, logits: tf.Tensor, places: tf.Tensor) -> Outputs:
        """Returns the likeliest tokens.

        Args:
          logits: float32 [M, V].
          places: bool [B, L], True at M tokens.
        """
        vocabulary = self.reader.vocabulary
        num_top = min(_NUM_TOP, vocabulary.size)
        top = tf.math.top_k(tf.nn.softmax(logits), num_top)  # [M, 10]
        shape = tf.concat([tf.shape(places), [num_top]], 0)
        indices = tf.cast(tf.where(places), tf.int32)  # [M, 2]
        return {
            "top_tokens": tf.scatter_nd(
                indices, tf.gather(vocabulary.tokens, top.indices), shape
            ),
            "top_probabilities": tf.scatter_nd(indices, top.values, shape),
        }

    def predict_for_text(self, inputs: Inputs) -> Outputs:
        """Returns what the head answers to text."""
        return self.predict(inputs)


class Discriminator(Network):
    """Finds the tokens that were replaced.

    Args:
      model: that has a detector.
      reader: reads text.
    """

    def __init__(self, model: Electra, reader: TextReader) -> None:
        super().__init__(model.electra, model.detector[-1], reader)
        self.model = model
        self.layers = model.detector

    def predict(self, inputs: Inputs) -> Outputs:
        """Returns each token's probability."""
        probabilities = tf.sigmoid(self.model.discriminate(inputs))
        found = tf.where(inputs.is_real, probabilities, 0.0)
        return {"probability_replaced": found}


class Energies(Discriminator):
    """Says how likely each token is given all others."""

    def predict(self, inputs: Inputs) -> Outputs:
        """Returns each token's log-probability, the energy's opposite."""
        energies = self.model.discriminate(inputs)
        scored = pretrain_helpers.candidates(inputs, self.reader.vocabulary)
        return {"log_probability": tf.where(scored, -energies, 0.0)}


class Generator(Network):
    """Says which token belongs where, and fills in masks."""

    def read(self, text: tf.Tensor) -> Inputs:
        """Turns text, string [B], into ids, "[MASK]" into masks."""
        return self.reader.rows(self.reader.tokenize_with_masks(text))

    def predict(self, inputs: Inputs) -> Outputs:
        """Returns the logits of all tokens at all positions."""
        return {"logits": self._logits(self.encoder(*inputs).sequence_output)}

    def predict_for_text(self, inputs: Inputs) -> Outputs:
        """Returns the likeliest tokens; only masks are compared with them."""
        is_mask = inputs.input_ids == self.reader.vocabulary.mask_id
        states = self.encoder(*inputs).sequence_output
        states = tf.boolean_mask(states, is_mask)  # [M, H]
        return self.top(self._logits(states), is_mask)

    def _logits(self, states: tf.Tensor) -> tf.Tensor:
        table = tf.convert_to_tensor(self.encoder.embeddings.word_embeddings)
        return self.head(states, table)


class Corrector(Network):
    """Says which token stood where, of a text in which some were replaced.

    Args:
      model: that corrects.
      reader: reads text.
    """

    def __init__(self, model: ReplaceMlm, reader: TextReader) -> None:
        super().__init__(model.electra, model.corrector_predictions, reader)
        self.model = model
        self.layers = model.corrector

    def predict(self, inputs: Inputs) -> Outputs:
        """Returns the log-probabilities of all tokens at all positions."""
        states = self.encoder(*inputs).sequence_output
        found = self.model.log_probabilities(states, inputs.input_ids)
        return {"log_probabilities": found}

    def predict_for_text(self, inputs: Inputs) -> Outputs:
        """Returns the likeliest tokens at each position."""
        logits = self.predict(inputs)["log_probabilities"]
        real_logits = tf.boolean_mask(logits, inputs.is_real)
        return self.top(real_logits, inputs.is_real)


def _networks(model: PretrainingModel) -> dict[str, Network]:
    """Returns the networks that a model has, by name."""
    reader = TextReader(model)
    networks: dict[str, Network] = {}
    kind = model.config.objective.traits.answers
    if kind == "words":
        networks["corrector"] = Corrector(model, reader)
    elif kind:
        answer = Energies if kind == "energies" else Discriminator
        networks["discriminator"] = answer(model, reader)
    if head := getattr(model, "generator_predictions", None):
        encoder = getattr(model, "generator", model.electra)
        networks["generator"] = Generator(encoder, head, reader)
    return networks


def _write_card(model: PretrainingModel, directory: pathlib.Path) -> None:
    """Writes README.md beside the networks."""
    parts = {
        name: model_card.Part(
            network.encoder.config,
            sum(
                math.prod(variable.shape)
                for layer in network.layers
                for variable in layer.weights
            ),
        )
        for name, network in _networks(model).items()
    }
    optimizer = getattr(model, "optimizer", None)
    model_card.write(
        directory,
        parts,
        model_card.facts_of(model.config),
        "saved_model",
        step=int(optimizer.iterations) if optimizer else 0,
    )


def _text_endpoints(network: Network) -> Endpoints:
    def serve(text: tf.Tensor) -> Outputs:
        inputs = network.read(text)
        tokens = {"tokens": network.reader.tokens(inputs)}
        return tokens | _ids(inputs) | network.predict_for_text(inputs)

    def encode(text: tf.Tensor) -> Outputs:
        inputs = network.read(text)
        return _ids(inputs) | network.encode(inputs)

    return {"serving_default": serve, "encode": encode}


def _ids(inputs: Inputs) -> Outputs:
    return {"input_ids": inputs.input_ids, "input_mask": inputs.input_mask}


def _ids_endpoints(network: Network) -> Endpoints:
    def serve(
        input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> Outputs:
        return network.predict(Inputs(input_ids, input_mask, segment_ids))

    def encode(
        input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> Outputs:
        return network.encode(Inputs(input_ids, input_mask, segment_ids))

    return {"serving_default": serve, "encode": encode}
