"""Classifies texts without training: the label word that fits best wins.

python tools/examples/prompt_texts.py --model=PATH
"""

import argparse

import electra_tf

TEMPLATE = "{text} It was {label} ."
LABELS = ("terrible", "great")
TEXTS = ("A moving film with a fine cast.", "A dull plot and a weak ending.")

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", required=True, help="checkpoint of ELECTRA")


def main() -> None:
    """Prints the label of each text, and by how much it fits better."""
    scorer = electra_tf.Scorer.from_checkpoint(parser.parse_args().model)
    name = scorer.default_scores[0]

    def fits(texts: list[str], label: str) -> list[float]:
        """Returns the mean score of the label's tokens in each template."""
        start = TEMPLATE.index("{label}") - len("{text}")
        prompts = [TEMPLATE.format(text=text, label=label) for text in texts]
        means = []
        for text, scored in zip(texts, scorer.score(prompts), strict=True):
            first = start + len(text)
            scores = [
                token.log_probs[name]
                for token in scored.tokens
                if first <= token.start < first + len(label)
            ]
            means.append(sum(scores) / len(scores))
        return means

    # An empty text shows how well a label fits whatever the text is.
    gains = []
    for label in LABELS:
        empty, *found = fits(["", *TEXTS], label)
        gains.append([score - empty for score in found])
    for text, of_labels in zip(TEXTS, zip(*gains, strict=True), strict=True):
        best = max(range(len(LABELS)), key=of_labels.__getitem__)
        margin = of_labels[best] - min(of_labels)
        print(f"{LABELS[best]} (by {margin:.3f} nats): {text}")


if __name__ == "__main__":
    main()
