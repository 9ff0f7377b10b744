"""Finds the names in sentences: a tag for each word.

python tools/examples/tag_words.py --model=PATH
"""

import argparse
import itertools

import keras

import electra_tf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", required=True, help="checkpoint of an encoder")
parser.add_argument("--epochs", type=int, default=3)

LABELS = ("O", "PERSON", "PLACE")


def built_in() -> tuple[list[list[str]], list[list[str]]]:
    """Returns sentences, as lists of words, and their tags."""
    people, places = ("Ann", "Bob", "Eve"), ("Rome", "Oslo", "Lima")
    sentences, tags = [], []
    for person, place in itertools.product(people, places):
        sentences.append([person, "lives", "in", place, "."])
        tags.append(["PERSON", "O", "O", "PLACE", "O"])
        sentences.append(["In", place, "we", "met", person, "."])
        tags.append(["O", "PLACE", "O", "O", "PERSON", "O"])
    return sentences, tags


def main() -> None:
    """Trains with early stopping, and tags a new sentence."""
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    sentences, tags = built_in()
    model = electra_tf.ElectraTagger.from_checkpoint(args.model, labels=LABELS)
    model.compile()
    model.fit(
        sentences,
        tags,
        validation_split=0.2,
        batch_size=6,
        epochs=args.epochs,
        callbacks=[keras.callbacks.EarlyStopping(patience=2)],
        verbose=2,
    )
    words = "Then Eve lives in Rome .".split()
    (found,) = model.tag([words])
    print(" ".join(f"{w}/{tag}" for w, tag in zip(words, found, strict=True)))


if __name__ == "__main__":
    main()
