"""Classifies texts: a csv file of texts and labels, or a few built-in reviews.

python tools/examples/classify_reviews.py --model=PATH [--data=reviews.csv]
"""

import argparse
import csv
import itertools

import keras

import electra_tf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", required=True, help="checkpoint of an encoder")
parser.add_argument("--data", help="csv with the columns text and label")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--output", help="where to save the model, as film.keras")


def built_in() -> tuple[list[str], list[str]]:
    """Returns good and bad reviews, with their labels."""
    things = ("film", "plot", "score", "cast", "end")
    words = {"good": ("fine", "warm", "great"), "bad": ("dull", "cold", "weak")}
    texts, labels = [], []
    for label, adjectives in words.items():
        for thing, adjective in itertools.product(things, adjectives):
            texts.append(f"The {thing} is {adjective}.")
            labels.append(label)
    return texts, labels


def from_file(path: str) -> tuple[list[str], list[str]]:
    """Reads texts and labels."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["label"] for row in rows]


def main() -> None:
    """Trains, evaluates, classifies new texts, and saves the model."""
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    texts, labels = from_file(args.data) if args.data else built_in()
    train = [i for i in range(len(texts)) if i % 5]  # the others are held out
    held_out = range(0, len(texts), 5)

    model = electra_tf.ElectraClassifier.from_checkpoint(
        args.model, labels=sorted(set(labels))
    )
    model.compile()
    model.summary()
    model.fit(
        [texts[i] for i in train],
        [labels[i] for i in train],
        validation_data=(
            [texts[i] for i in held_out],
            [labels[i] for i in held_out],
        ),
        batch_size=8,
        epochs=args.epochs,
        verbose=2,
    )
    news = ["The film is great.", "The end is dull."]
    for text, label in zip(news, model.classify(news), strict=True):
        print(f"{label}: {text}")
    if args.output:
        model.save(args.output)
        print("To load it: from electra_tf import ElectraClassifier")
        print(f"            keras.saving.load_model({args.output!r})")


if __name__ == "__main__":
    main()
