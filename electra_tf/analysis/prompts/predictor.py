"""Classifies text by prompting a checkpoint that was not fine-tuned."""

import os
from collections.abc import Sequence

import numpy as np

from electra_tf.analysis import loaded_networks
from electra_tf.analysis.loaded_networks import DISCRIMINATOR, MLM, LoadOptions
from electra_tf.analysis.prompts import (
    classification,
    prompt_examples,
    templates,
)
from electra_tf.analysis.prompts.scorers import NetworkScorer
from electra_tf.analysis.representations import probes
from electra_tf.data.answering import Answer, Answerer, Inputs, InputSpec
from electra_tf.util import optional_packages
from electra_tf.util.errors import UserError


class PromptPredictor(Answerer):
    """A pre-trained model as a zero- or few-shot text classifier."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        templates_file: str | os.PathLike[str],
        *,
        examples_file: str | os.PathLike[str] = "",
        score: str = "",
        batch_size: int = 64,
        precision: str = "float32",
    ) -> None:
        if batch_size < 1:
            raise UserError(
                f"`batch_size` must be at least 1. Received: {batch_size}."
            )
        self._prompts = templates.read(str(templates_file))
        self._labels = list(self._prompts.label_words)
        training_examples = self._read_examples(str(examples_file))
        options = LoadOptions(precision=precision)
        networks = loaded_networks.by_kind(str(path), options)
        self.score = _choose_score(score, networks, path)
        self._scorer = NetworkScorer(networks[self.score], batch_size)
        empty = [dict.fromkeys(self._prompts.columns, "")]
        self._empty_text_scores = self._raw_scores(empty)[0]  # [labels]
        self._classifier = None
        if training_examples:
            scores = self._scores(
                [example.texts for example in training_examples]
            )
            labels = [example.label for example in training_examples]
            self._classifier = probes.fit_classifier(scores, labels)

    @property
    def input_spec(self) -> InputSpec:
        """The columns of the templates."""
        return InputSpec(self._prompts.columns)

    def make_example(self, number: int, inputs: Inputs) -> dict[str, str]:
        """Returns column -> text."""
        del number
        return dict(zip(self._prompts.columns, inputs, strict=True))

    def answer(self, examples: Sequence[dict[str, str]]) -> list[Answer]:
        """Returns the class of each example, with scores or probabilities."""
        name, labels, values = "scores", self._labels, self._scores(examples)
        if self._classifier:
            name, labels = "probabilities", list(self._classifier.classes_)
            values = self._classifier.predict_proba(values)
        return [
            {
                "prediction": labels[row.argmax()],
                name: dict(zip(labels, row.tolist(), strict=True)),
            }
            for row in values
        ]

    def _scores(self, texts: Sequence[dict[str, str]]) -> np.ndarray:
        """Returns calibrated scores, float64 [examples, labels]."""
        return self._raw_scores(texts) - self._empty_text_scores

    def _raw_scores(self, texts: Sequence[dict[str, str]]) -> np.ndarray:
        found = classification.label_scores(self._scorer, self._prompts, texts)
        return found.mean(1)

    def _read_examples(
        self, path: str
    ) -> list[prompt_examples.LabelledExample]:
        if not path:
            return []
        optional_packages.load("sklearn", "analysis")
        found = list(prompt_examples.read_file(self._prompts, path))
        classes = {example.label for example in found}
        if len(classes) < 2:
            raise UserError(
                f"{path} must hold examples of two classes or more. Received: "
                f"{len(found)} of {', '.join(classes) or 'none'}. Add some of "
                "the others."
            )
        return found


def _choose_score(
    score: str, networks: dict[str, object], path: str | os.PathLike[str]
) -> str:
    """Returns the name of the score to use, out of those available."""
    available = [x for x in (DISCRIMINATOR, MLM) if x in networks]
    if not available or (score and score not in available):
        raise UserError(
            "Prompting needs a checkpoint with a discriminator or a masked "
            f"language model. Received: {path}, which gives "
            f"{', '.join(available) or 'no score'}; asked for: "
            f"{score or 'any'}."
        )
    return score or available[0]
