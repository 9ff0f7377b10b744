"""Exports the networks of a pre-training model as SavedModels, or as arrays.

Objectives that predict every token have a corrector for a discriminator; two
towers, which fill no masks, are left out. All networks compute in float32.
Inputs and outputs: docs/serving.md.
"""

import dataclasses

import tensorflow as tf
from etils import epath

from electra_tf.checkpoint import architecture
from electra_tf.checkpoint.weights import Weights
from electra_tf.model import two_tower
from electra_tf.model.text_reader import Ids, TextReader
from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.objectives.replace_mlm import ReplaceMlm
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.serving import endpoints, saved_models
from electra_tf.serving.endpoints import Network
from electra_tf.serving.saved_models import Outputs
from electra_tf.training.updates import checkpoint_variables


def export(
    model: PretrainingModel,
    directory: epath.Path,
    *,
    temperature: float = 1.0,
) -> list[epath.Path]:
    """Writes each network of a model as two SavedModels, in float32."""
    training = model.config.training
    if training.precision != "float32":
        training = dataclasses.replace(training, precision="float32")
        config = dataclasses.replace(model.config, training=training)
        exact = type(model)(config, model.vocabulary)
        exact.set_weights(model.get_weights())
        model = exact
    return endpoints.export(networks_of(model, temperature), directory)


def networks_of(
    model: PretrainingModel, temperature: float = 1.0
) -> dict[str, Network]:
    """Returns the networks that a model has, by name, the main one first."""
    networks: dict[str, Network] = {}
    token_output = model.token_output
    if token_output == "words":
        networks["corrector"] = _corrector(model)
    elif token_output == "energies":
        networks["discriminator"] = _electric(model)
    elif token_output:
        networks["discriminator"] = _detector(model, temperature)
    if hasattr(model, "generator_model"):
        networks["generator"] = endpoints.mask_filler(
            model.generator_model, reader_of(model, reads_masks=True)
        )
    return networks


def weights_of(model: PretrainingModel) -> Weights:
    """Returns copies of a model's weights, its slots and its step."""
    sizes, corpus = model.config.model, model.config.corpus
    arrays = {
        name: variable.numpy()
        for name, variable in checkpoint_variables(model).items()
    }
    encoder = sizes.discriminator(model.vocabulary.size)
    generator = sizes.generator(model.vocabulary.size)
    stored = architecture.infer(
        {name: array.shape for name, array in arrays.items()},
        num_attention_heads=encoder.num_attention_heads,
        generator_num_attention_heads=generator.num_attention_heads,
    )
    return Weights(
        origin=model.name,
        objective=model.config.objective.objective,
        arrays=arrays,
        architecture=dataclasses.replace(
            stored, encoder=encoder, generator=stored.generator and generator
        ),
        vocabulary=model.vocabulary,
        do_lower_case=corpus.do_lower_case,
        strip_accents=corpus.strip_accents,
        max_seq_length=corpus.max_seq_length,
    )


def reader_of(
    model: PretrainingModel, *, reads_masks: bool = False
) -> TextReader:
    config = model.config.corpus
    return TextReader(
        model.vocabulary,
        do_lower_case=config.do_lower_case,
        strip_accents=config.strip_accents,
        max_seq_length=config.max_seq_length,
        reads_masks=reads_masks,
    )


def _electric(model: Electra) -> Network:
    """Describes electric's discriminator: log p = -energy, unnormalised."""

    def log_probability(ids: Ids) -> Outputs:
        inputs = Inputs(**ids)
        energies = model.discriminate(inputs)
        scored = pretrain_helpers.candidates_mask(inputs, model.vocabulary)
        return {"log_probability": tf.where(scored, -energies, 0.0)}

    return Network(
        encoder=model.electra,
        layers=model.detector,
        reader=reader_of(model),
        predict=log_probability,
        log_probs=lambda ids: -model.discriminate(Inputs(**ids)),
    )


def _detector(model: Electra, temperature: float) -> Network:
    """Describes the discriminator; its towers, if any, score texts."""
    config = model.config
    detector = endpoints.detector(
        model.electra,
        model.detector,
        reader_of(model),
        lambda ids: model.discriminate(Inputs(**ids)),
        temperature,
    )
    is_exact = two_tower.has_exact_samples(config.objective, config.masking)
    if not (model.has_two_towers and is_exact):
        return detector

    def log_probs(ids: Ids) -> tf.Tensor:
        inputs = Inputs(**ids)
        return two_tower.log_probs_of_texts(
            model.discriminate(inputs),
            model.cloze(inputs)[0].log_probs(inputs.input_ids),
            inputs.input_mask,
            masking=config.masking,
            max_seq_length=config.corpus.max_seq_length,
        )

    return dataclasses.replace(
        detector,
        log_probs=log_probs,
        layers=[*model.detector, model.generator, model.cloze_predictions],
    )


def _corrector(model: ReplaceMlm) -> Network:
    """Describes the corrector, which predicts the original tokens."""

    def predict(ids: Ids) -> Outputs:
        states = model.electra(**ids).sequence_output
        log_probs = model.log_probabilities(states, ids["input_ids"])
        return {"log_probabilities": log_probs}  # [B, L, V]

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
