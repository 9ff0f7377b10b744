"""Computes the quantities in the original's arrays with our networks."""

import numpy as np
import tensorflow as tf

from electra_tf.model import losses
from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.objectives.electric import Electric


def relative(ours, theirs):
    """Returns the norm of the difference divided by the norm of theirs."""
    difference = np.linalg.norm(np.asarray(ours, float) - theirs)
    size = np.linalg.norm(theirs)
    return difference / size if size else difference


def quantities(model, inputs, keys):
    """Computes the quantities in the original's arrays, under their names."""
    forward_pass = model.forward(inputs, keys=keys, training=False)
    masked = forward_pass.masked
    values = {
        "mask/input_ids": masked.inputs.input_ids,
        "mask/masked_lm_positions": masked.positions,
        "mask/masked_lm_ids": masked.ids,
        "mask/masked_lm_weights": masked.weights,
        **_mlm(forward_pass.mlm_logits, masked.ids, masked.weights),
    }
    if isinstance(model, Electra):
        values |= _electra(model, forward_pass, inputs)
    else:
        values |= _encoder("generator", model.electra, masked.inputs)
    weights = model.config.objective
    loss = values.get("cloze/loss", values["mlm/loss"])
    total = weights.gen_weight * loss
    total += weights.disc_weight * values.get("disc/loss", 0.0)
    values["total_loss"] = total
    return {name: np.asarray(value) for name, value in values.items()}


def _electra(model, forward_pass, inputs):
    """Returns the quantities of generator and discriminator."""
    fake = forward_pass.fake
    values = {
        "fake/input_ids": fake.inputs.input_ids,
        "fake/is_fake_tokens": fake.is_fake_tokens,
        "fake/sampled_tokids": fake.sampled_ids,
        **_encoder("discriminator", model.electra, fake.inputs),
    }
    logits = forward_pass.disc_logits
    if model.has_two_towers:
        values |= _cloze(model, forward_pass, inputs)
        if isinstance(model, Electric):
            # The original computes q on padding, too, where it is not used.
            log_z = tf.reduce_logsumexp(values["cloze/logits"], -1)
            logits -= tf.where(inputs.input_mask > 0, 0.0, log_z)
    elif model.has_generator:
        reader = model.generator
        values |= _encoder("generator", reader, forward_pass.masked.inputs)
    return values | _detection(logits, fake.is_fake_tokens, inputs.input_mask)


def _cloze(model, forward_pass, inputs):
    """Returns the quantities of two towers, with the logits of every token."""
    values = {}
    for tower in model.generator.towers:
        values |= _encoder(tower.name, tower, inputs)
    cloze, states = model.cloze(inputs)
    is_candidate = pretrain_helpers.candidates_mask(inputs, model.vocabulary)
    weights = tf.cast(is_candidate, tf.float32)
    logits = model.cloze_predictions(states, cloze.table)
    loss = -forward_pass.cloze.log_probs(inputs.input_ids)
    return values | {
        "cloze/logits": logits,
        "cloze/preds": tf.argmax(logits, -1, tf.int32),
        "cloze/weights": weights,
        "cloze/per_example_loss": losses.softmax_cross_entropy(
            logits, inputs.input_ids
        ),
        "cloze/loss": losses.weighted(loss, weights).mean(),
    }


def _mlm(logits, ids, weights):
    loss = losses.softmax_cross_entropy(logits, ids)
    return {
        "mlm/logits": logits,
        "mlm/log_probs": tf.nn.log_softmax(logits),
        "mlm/preds": tf.argmax(logits, -1, tf.int32),
        "mlm/weights": weights,
        "mlm/per_example_loss": loss,
        "mlm/loss": losses.weighted(loss, weights).mean(),
    }


def _detection(logits, labels, input_mask):
    weights = tf.cast(input_mask, tf.float32)
    loss = losses.sigmoid_cross_entropy(logits, labels)
    return {
        "disc/logits": logits,
        "disc/probs": tf.sigmoid(logits),
        "disc/preds": tf.cast(logits > 0, tf.int32),
        "disc/labels": labels,
        "disc/per_example_loss": tf.reduce_sum(loss * weights, 1)
        / tf.reduce_sum(weights, 1),
        "disc/loss": losses.weighted(loss, weights).mean(),
    }


def _encoder(name, encoder, inputs):
    output = encoder(*inputs)
    below = [output.embedding_output, *output.all_layers[:-1]]
    bias = encoder.bias(inputs.input_mask)
    maps = [
        block.attention.probabilities(x, bias)
        for block, x in zip(encoder.blocks, below, strict=True)
    ]
    table = encoder.embeddings.word_embeddings
    return {
        f"{name}/token_embeddings": tf.gather(
            tf.convert_to_tensor(table), inputs.input_ids
        ),
        f"{name}/embedding_output": output.embedding_output,
        f"{name}/all_layers": tf.stack(output.all_layers),
        f"{name}/attn_maps": tf.stack(maps),
        f"{name}/sequence_output": output.sequence_output,
    }
