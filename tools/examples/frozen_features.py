"""Computes features once, and fits a linear classifier to them.

The encoder is not trained, so that this takes seconds. NumPy fits the
classifier; those of scikit-learn, for example, would do as well.

python tools/examples/frozen_features.py --model=PATH
"""

import argparse

import numpy as np
from classify_reviews import built_in

import electra_tf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", required=True, help="checkpoint of an encoder")
parser.add_argument("--pooling", choices=("mean", "cls"), default="mean")


def fit_ridge(x: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    """Returns the weights of a ridge regression, the last for the bias."""
    x = np.append(x, np.ones((len(x), 1)), axis=1)
    return np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)


def main() -> None:
    """Compares features of every layer."""
    args = parser.parse_args()
    texts, labels = built_in()
    is_good = np.array([label == "good" for label in labels])
    is_held_out = np.arange(len(texts)) % 5 == 0
    backbone = electra_tf.ElectraBackbone.from_checkpoint(args.model)
    for layer in range(len(backbone.encoder.blocks)):
        x = backbone.embed(texts, pooling=args.pooling, layer=layer)
        x = (x - x.mean(0)) / (x.std(0) + 1e-6)
        weights = fit_ridge(x[~is_held_out], 2.0 * is_good[~is_held_out] - 1, 1)
        scores = x[is_held_out] @ weights[:-1] + weights[-1]
        accuracy = np.mean((scores > 0) == is_good[is_held_out])
        print(f"layer {layer}: accuracy {accuracy:.2f}")


if __name__ == "__main__":
    main()
