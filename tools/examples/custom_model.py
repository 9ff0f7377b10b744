"""A custom functional model on the encoder, with a custom training loop.

python tools/examples/custom_model.py --model=PATH
"""

import argparse

import keras
import tensorflow as tf
from classify_reviews import built_in

import electra_tf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", required=True, help="checkpoint of an encoder")
parser.add_argument("--epochs", type=int, default=3)


def make_model(backbone: electra_tf.ElectraBackbone) -> keras.Model:
    """Adds the mean over tokens and a dense layer to the encoder."""
    texts = keras.Input((), dtype="string", name="texts")
    outputs = backbone(texts)
    states = outputs["sequence_output"]  # [B, L, H]
    # Padding has states, too: only the mask keeps them out.
    pooled = keras.layers.GlobalAveragePooling1D()(
        states, mask=outputs["input_mask"]
    )
    logits = keras.layers.Dense(2, dtype="float32")(pooled)
    return keras.Model(texts, logits)


def main() -> None:
    """Trains the model, and classifies new texts."""
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    texts, labels = built_in()
    targets = [label == "good" for label in labels]
    data = tf.data.Dataset.from_tensor_slices((texts, targets))
    data = data.shuffle(len(texts), seed=0).batch(10)

    backbone = electra_tf.ElectraBackbone.from_checkpoint(
        args.model, max_seq_length=32
    )
    model = make_model(backbone)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # Lower layers get lower learning rates; the new layers get the full one.
    optimizer = backbone.make_optimizer(num_train_steps=args.epochs * len(data))
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(texts: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(targets, model(texts, training=True))
        variables = model.trainable_variables
        gradients = tape.gradient(loss, [v.value for v in variables])
        optimizer.apply(gradients, variables)
        return loss

    for epoch in range(args.epochs):
        losses = [float(step(*batch)) for batch in data]
        print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.3f}")
    logits = model(tf.constant(["The film is great.", "The end is dull."]))
    print(keras.ops.softmax(logits).numpy().round(2))


if __name__ == "__main__":
    main()
