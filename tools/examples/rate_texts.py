"""Predicts a number for each text: how many stars a review gives.

python tools/examples/rate_texts.py --model=PATH
"""

import argparse
import itertools

import keras

import electra_tf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", required=True, help="checkpoint of an encoder")
parser.add_argument("--epochs", type=int, default=3)


def built_in() -> tuple[list[str], list[float]]:
    """Returns reviews with one to five stars."""
    words = ("awful", "weak", "fair", "good", "great")
    things = ("film", "plot", "cast", "end")
    texts, stars = [], []
    for thing, (number, word) in itertools.product(
        things, enumerate(words, start=1)
    ):
        texts.append(f"The {thing} is {word}.")
        stars.append(float(number))
    return texts, stars


def main() -> None:
    """Trains with mixed_bfloat16, and rates new texts."""
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    texts, stars = built_in()
    model = electra_tf.ElectraRegressor.from_checkpoint(
        args.model, value_range=(1, 5), dtype="mixed_bfloat16"
    )
    model.compile()
    model.fit(texts, stars, batch_size=5, epochs=args.epochs, verbose=2)
    news = ["The film is great.", "The end is awful."]
    for text, value in zip(news, model.predict(news, verbose=0), strict=True):
        print(f"{value[0]:.1f} stars: {text}")


if __name__ == "__main__":
    main()
