"""Pre-trains a small ELECTRA with Keras' `fit`, and uses the discriminator.

The text is docstrings of Python's standard library. With more of it, the
same code trains a useful network; `run_pretraining` resumes after a crash.

python tools/examples/pretrain_with_keras.py --output=reviewed
"""

import argparse
import collections
import inspect
import re

import keras
import tensorflow as tf

import electra_tf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--output", required=True, help="a new directory")
parser.add_argument("--epochs", type=int, default=40)

SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "embedding_size": 64,
    "generator_hidden_size": 0.5,
}


def built_in() -> list[str]:
    """Returns a document for each of some standard library modules."""
    modules = (argparse, collections, inspect, re)
    members = [vars(module).values() for module in modules]
    return [
        "\n".join(filter(None, (inspect.getdoc(x) for x in found)))
        for found in members
    ]


def make_vocabulary(texts: list[str]) -> electra_tf.Vocabulary:
    """Makes a vocabulary of the frequent words and all characters."""
    words = re.findall(r"[a-z]+|[^\sa-z]", " ".join(texts).lower())
    often = [word for word, _ in collections.Counter(words).most_common(500)]
    characters = sorted({c for word in words for c in word})
    pieces = [*often, *characters, *(f"##{c}" for c in characters)]
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    return electra_tf.Vocabulary((*special, *dict.fromkeys(pieces)))


def main() -> None:
    """Trains, and detects the tokens that do not fit into a sentence."""
    args = parser.parse_args()
    *texts, held_out = built_in()
    num_batches = 5
    schedule = {
        "max_seq_length": 64,
        "train_batch_size": 16,
        "learning_rate": 2e-3,
        "num_train_steps": num_batches * args.epochs,
        "num_warmup_steps": num_batches // 2,
    }
    pretrainer = electra_tf.ElectraPretrainer(
        SIZES | schedule, make_vocabulary(texts)
    )
    pretrainer.compile()
    pretrainer.fit(
        texts * 8,
        epochs=args.epochs,
        steps_per_epoch=num_batches,
        validation_data=[held_out],
        callbacks=[keras.callbacks.TerminateOnNaN()],
    )
    pretrainer.save_checkpoint(args.output)
    discriminator = electra_tf.ElectraDiscriminator.from_checkpoint(args.output)
    logits = discriminator(tf.constant(["return the the of path"]))["logits"]
    print("P(replaced):", keras.ops.sigmoid(logits).numpy().round(2))


if __name__ == "__main__":
    main()
