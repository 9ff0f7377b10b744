"""The networks of a pre-training model as SavedModels, or as arrays.

    <directory>/discriminator/{text,ids}/1
    <directory>/generator/{text,ids}/1
    <directory>/corrector/{text,ids}/1      in place of the discriminator, from
                                            the objectives that predict every
                                            token

`serving/saved_models.py` says what `text` and `ids` read, and what their
signature "encode" returns. A masked language model has a generator and no
discriminator; a generator of two towers, which fills no masks, is left out.
The signature "serving_default" returns

    discriminator       probability_replaced float32 [B, L], 0 on padding; of
                        electric log_probability float32 [B, L], each token's
                        given all others, unnormalised, in nats; 0 on padding,
                        [CLS], [SEP] and [MASK]
    generator, of ids   logits float32 [B, L, V]
    generator, of text  top_tokens string [B, L, 10] and top_probabilities
                        float32 [B, L, 10] at each mask; "" and 0 elsewhere
    corrector, of ids   log_probabilities float32 [B, L, V]
    corrector, of text  as the generator, but at each token of the text

Of a training on packed rows `input_mask` may number the documents of a row.
All compute in float32, whatever the training did.
"""

import dataclasses
import pathlib

import tensorflow as tf

from electra_tf.checkpoint import architecture, model_card
from electra_tf.checkpoint.weights import Weights
from electra_tf.model.text_reader import Ids, TextReader
from electra_tf.pretrain import pretrain_helpers, run_facts
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.objectives.replace_mlm import ReplaceMlm
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.serving import saved_models
from electra_tf.serving.saved_models import Network, Outputs
from electra_tf.training.updates import checkpoint_variables


def export(
    model: PretrainingModel, directory: pathlib.Path
) -> list[pathlib.Path]:
    """Writes each network of a model as two SavedModels, and a model card.

    Args:
      model: with the weights to export.
      directory: where they go, each into a directory of its own.

    Returns:
      The directory of each SavedModel.

    Raises:
      UserError: if `directory` cannot be written to.
    """
    found = networks_of(_in_float32(model))
    written = [
        path
        for name, network in found.items()
        for path in saved_models.export(network.signatures, directory / name)
    ]
    optimizer = getattr(model, "optimizer", None)
    step = int(optimizer.iterations.numpy()) if optimizer else 0
    model_card.write(
        directory,
        {
            name: model_card.Part(network.encoder.config, network.num_weights)
            for name, network in found.items()
        },
        run_facts.of_run(model.config, step),
        "saved_model",
        step=step,
    )
    return written


def networks_of(model: PretrainingModel) -> dict[str, Network]:
    """Returns the networks that a model has, by name, the main one first.

    Args:
      model: its objective's traits say what its main network `answers`;
        `generator_predictions` stands on `generator`, or without one on
        `electra`.
    """
    found: dict[str, Network] = {}
    answers = model.config.objective.traits.answers
    if answers == "words":
        found["corrector"] = _corrector(model)
    elif answers:
        found["discriminator"] = _discriminator(model)
    if hasattr(model, "generator_predictions"):
        found["generator"] = _generator(model)
    return found


def weights_of(model: PretrainingModel) -> Weights:
    """Returns copies of a model's weights, its slots and its step.

    Args:
      model: with its optimizer.
    """
    sizes, vocabulary = model.config.model, model.vocabulary
    arrays = {
        name: variable.numpy()
        for name, variable in checkpoint_variables(model).items()
        if not name.startswith(architecture.LOSS_SCALE)
    }
    encoder = sizes.discriminator(vocabulary.size)
    generator = sizes.generator(vocabulary.size)
    found = architecture.infer(
        {name: array.shape for name, array in arrays.items()},
        num_attention_heads=encoder.num_attention_heads,
        generator_num_attention_heads=generator.num_attention_heads,
    )
    if found.generator is None:
        generator = None
    return Weights(
        origin=model.name,
        arrays=arrays,
        architecture=dataclasses.replace(
            found, encoder=encoder, generator=generator
        ),
        vocabulary=vocabulary,
        do_lower_case=model.config.corpus.do_lower_case,
        strip_accents=model.config.corpus.strip_accents,
    )


def reader_of(
    model: PretrainingModel, *, reads_masks: bool = False
) -> TextReader:
    """Returns the reader of a model's texts.

    Args:
      model: whose vocabulary and configuration to follow.
      reads_masks: whether "[MASK]" in text is a mask.
    """
    config = model.config.corpus
    return TextReader(
        model.vocabulary,
        do_lower_case=config.do_lower_case,
        strip_accents=config.strip_accents,
        max_seq_length=config.max_seq_length,
        reads_masks=reads_masks,
    )


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


def _discriminator(model: Electra) -> Network:
    """Describes what tells replaced tokens; of electric, their energies."""

    def probability(ids: Ids) -> Outputs:
        inputs = Inputs(**ids)
        found = tf.sigmoid(model.discriminate(inputs))
        return {"probability_replaced": tf.where(inputs.is_real, found, 0.0)}

    def log_probability(ids: Ids) -> Outputs:
        inputs = Inputs(**ids)
        energies = model.discriminate(inputs)
        scored = pretrain_helpers.candidates(inputs, model.vocabulary)
        return {"log_probability": tf.where(scored, -energies, 0.0)}

    is_electric = model.config.objective.traits.answers == "energies"
    predict = log_probability if is_electric else probability
    return Network(
        encoder=model.electra,
        layers=model.detector,
        reader=reader_of(model),
        predict=predict,
        predict_for_text=predict,
    )


def _generator(model: PretrainingModel) -> Network:
    """Describes what fills masks; only they are compared with all words."""
    encoder = getattr(model, "generator", model.electra)
    head, vocabulary = model.generator_predictions, model.vocabulary

    def logits(states: tf.Tensor) -> tf.Tensor:
        table = tf.convert_to_tensor(encoder.embeddings.word_embeddings)
        return head(states, table)

    def predict(ids: Ids) -> Outputs:
        return {"logits": logits(encoder(**ids).sequence_output)}

    def predict_for_text(ids: Ids) -> Outputs:
        is_mask = ids["input_ids"] == vocabulary.mask_id
        states = encoder(**ids).sequence_output
        states = tf.boolean_mask(states, is_mask)  # [M, H]
        return saved_models.top_tokens(
            logits(states), is_mask, vocabulary.tokens
        )

    return Network(
        encoder=encoder,
        layers=(encoder, head),
        reader=reader_of(model, reads_masks=True),
        predict=predict,
        predict_for_text=predict_for_text,
    )


def _corrector(model: ReplaceMlm) -> Network:
    """Describes what tells which token stood where."""

    def predict(ids: Ids) -> Outputs:
        states = model.electra(**ids).sequence_output
        found = model.log_probabilities(states, ids["input_ids"])
        return {"log_probabilities": found}

    def predict_for_text(ids: Ids) -> Outputs:
        is_real = ids["input_mask"] > 0
        logits = predict(ids)["log_probabilities"]
        return saved_models.top_tokens(
            tf.boolean_mask(logits, is_real), is_real, model.vocabulary.tokens
        )

    return Network(
        encoder=model.electra,
        layers=model.corrector,
        reader=reader_of(model),
        predict=predict,
        predict_for_text=predict_for_text,
    )
