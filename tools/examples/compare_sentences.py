"""Tells whether one sentence follows from another: classes of pairs.

python tools/examples/compare_sentences.py --model=PATH
"""

import argparse
import itertools

import keras

import electra_tf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", required=True, help="checkpoint of an encoder")
parser.add_argument("--epochs", type=int, default=3)


def built_in() -> tuple[list[tuple[str, str]], list[str]]:
    """Returns pairs of sentences, of which the second may follow."""
    animals = {"dog": "animal", "cat": "animal", "rose": "plant"}
    pairs, labels = [], []
    for (name, kind), place in itertools.product(
        animals.items(), ("house", "garden", "street")
    ):
        premise = f"There is a {name} in the {place}."
        for other in ("animal", "plant"):
            pairs.append((premise, f"There is an {other} in the {place}."))
            labels.append("follows" if other == kind else "does not")
    return pairs, labels


def main() -> None:
    """Trains with rare classes counting more, then freezes the lower half."""
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    pairs, labels = built_in()
    model = electra_tf.ElectraClassifier.from_checkpoint(
        args.model, labels=("does not", "follows")
    )
    model.freeze(len(model.encoder.blocks) // 2)  # the upper half learns
    model.compile(model.make_optimizer())
    model.fit(
        pairs,
        labels,
        batch_size=6,
        epochs=args.epochs,
        class_weight={"follows": 2.0},
        callbacks=[keras.callbacks.TerminateOnNaN()],
        verbose=2,
    )
    scores = model.evaluate(pairs, labels, verbose=0, return_dict=True)
    print(f"accuracy on what it has seen: {scores['accuracy']:.2f}")
    # Pairs may also be two sequences.
    first, second = ["There is a dog in the house."], ["There is an animal."]
    print(model.classify((first, second)))


if __name__ == "__main__":
    main()
