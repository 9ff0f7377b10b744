"""Prompting: zero- and few-shot classification by scores of label words.

A template turns an example into a text with a label word in it; the prediction
is the class whose label word fits best. The fit is scored by a discriminator,
which reads the text with each label word in place, or by a network that fills
masks (see `scorers`).

    raw         score(word | text)
    calibrated  score(word | text) - score(word | empty text), which removes
                the network's bias for the word in any context

Scores are averaged over templates. With --shots, a logistic regression on the
averaged scores is fitted to that many examples of each class, drawn several
times from --dev; the network's weights stay frozen. To train them, use
run_finetuning.

Source: Zhao et al., 2021 (calibration). Differs: the content-free input is the
empty text, not "N/A"; the discriminator's scores are calibrated by the same
subtraction, although they are not log-probabilities of words.
"""

import collections
import itertools
from collections.abc import Sequence

import numpy as np

from electra_tf.analysis import loaded_networks
from electra_tf.analysis.loaded_networks import DISCRIMINATOR, MLM
from electra_tf.analysis.prompts import prompt_examples, prompt_rows
from electra_tf.analysis.prompts import report as prompt_report
from electra_tf.analysis.prompts import templates as prompt_templates
from electra_tf.analysis.prompts.prompt_examples import LabelledExample
from electra_tf.analysis.prompts.report import Findings, ScoreFindings
from electra_tf.analysis.prompts.scorers import NetworkScorer
from electra_tf.analysis.prompts.templates import Prompts
from electra_tf.analysis.reporting import statistics
from electra_tf.analysis.reporting.reports import Report
from electra_tf.analysis.reporting.statistics import Interval
from electra_tf.analysis.representations import probes
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util import optional_packages
from electra_tf.util.batching import batches
from electra_tf.util.errors import UserError

NUM_DRAWS = 20
"""Number of few-shot draws."""

_BLOCK_SIZE = 256


def run(config: AnalysisConfig) -> Report:
    """Classifies examples by the scores of label words."""
    _check_config(config)
    prompts = prompt_templates.read(config.templates)
    test_examples = prompt_examples.read(config, "test", prompts)
    shots: list[list[LabelledExample]] = []
    if config.shots:
        dev_examples = prompt_examples.read(config, "dev", prompts)
        shots = draw(dev_examples, list(prompts.label_words), config)
    findings = Findings(
        num_examples=len(test_examples),
        shots=config.shots,
        templates=[template.text for template in prompts.templates],
        label_words=prompts.label_words,
        majority=_majority(test_examples),
        scores={
            name: _evaluate(
                scorer, prompts, test_examples, shots, config=config
            )
            for name, scorer in _scorers(config).items()
        },
    )
    return prompt_report.make(findings)


def _check_config(config: AnalysisConfig) -> None:
    """Checks the configuration before anything is read."""
    if config.shots:
        optional_packages.load("sklearn", "analysis")
    unknown = set(config.scores) - {DISCRIMINATOR, MLM}
    if unknown:
        raise UserError(
            f"`scores` with --what=prompts must be {DISCRIMINATOR} (for "
            f"Electric: its energies) or {MLM}. Received: "
            f"{', '.join(sorted(unknown))}."
        )


def _scorers(config: AnalysisConfig) -> dict[str, NetworkScorer]:
    """Returns name -> scorer, for all networks whose scores are wanted."""
    networks = loaded_networks.by_kind(config.model, config)
    if config.generator:
        mlm_networks = loaded_networks.by_kind(
            config.generator, config, prefers_own_vocabulary=True
        )
        if MLM not in mlm_networks:
            raise UserError(
                "`generator` must be a checkpoint with a masked language "
                f"model. Received: {config.generator}, which has none."
            )
        networks[MLM] = mlm_networks[MLM]
    if config.twin:
        twin_networks = loaded_networks.by_kind(
            config.twin, config, prefers_own_vocabulary=True
        )
        for kind, network in twin_networks.items():
            networks[f"twin's {kind}"] = network
    wanted_kinds = config.scores or (DISCRIMINATOR, MLM)
    chosen = {
        name: network
        for name, network in networks.items()
        if loaded_networks.kind_of(network) in wanted_kinds
    }
    if not chosen:
        available = ", ".join(networks) or "none"
        raise UserError(
            f"Prompting needs a score of {', '.join(wanted_kinds)}: a "
            "checkpoint with a discriminator or a masked language model. "
            f"Received: {config.model}, which gives {available}. Set --scores, "
            "or --generator."
        )
    return {
        name: NetworkScorer(network, config.batch_size)
        for name, network in sorted(chosen.items())
    }


def label_scores(
    scorer: NetworkScorer, prompts: Prompts, texts: Sequence[dict[str, str]]
) -> np.ndarray:
    """Scores the label words of examples."""
    found = [
        scorer.score(prompt_rows.make(scorer.reader, prompts, block))
        for block in batches(texts, _BLOCK_SIZE)
    ]
    shape = (len(texts), len(prompts.templates), len(prompts.label_words))
    return np.concatenate(found).reshape(shape)


def _evaluate(
    scorer: NetworkScorer,
    prompts: Prompts,
    test_examples: Sequence[LabelledExample],
    shots: Sequence[Sequence[LabelledExample]],
    *,
    config: AnalysisConfig,
) -> ScoreFindings:
    """Measures how well one network classifies."""
    empty = label_scores(scorer, prompts, [dict.fromkeys(prompts.columns, "")])
    scores = label_scores(scorer, prompts, [x.texts for x in test_examples])
    labels = list(prompts.label_words)
    targets = np.array([labels.index(x.label) for x in test_examples])
    few_shot = None
    if shots:
        drawn_texts = [x.texts for x in itertools.chain(*shots)]
        shot_scores = label_scores(scorer, prompts, drawn_texts).mean(1)
        parts = zip(np.split(shot_scores, len(shots)), shots, strict=True)
        few_shot = _few_shot_accuracy(
            [(scored, [x.label for x in drawn]) for scored, drawn in parts],
            (scores.mean(1), [x.label for x in test_examples]),
            config,
        )
    calibrated = scores - empty
    return ScoreFindings(
        empty=empty[0],
        raw=_accuracies(scores, targets),
        calibrated=_accuracies(calibrated, targets),
        raw_shares=_shares(scores),
        calibrated_shares=_shares(calibrated),
        few_shot=few_shot,
    )


def _accuracies(scores: np.ndarray, targets: np.ndarray) -> list[Interval]:
    """Returns the accuracy of each template, then that of their average."""
    each = [*np.moveaxis(scores, 1, 0), scores.mean(1)]
    hits = [int(np.sum(x.argmax(1) == targets)) for x in each]
    return [statistics.wilson(hit, len(targets)) for hit in hits]


def _shares(scores: np.ndarray) -> list[float]:
    """Returns how often the average over templates predicts each label."""
    predictions = scores.mean(1).argmax(1)
    counts = np.bincount(predictions, minlength=scores.shape[2])
    return list(map(float, counts / len(predictions)))


def _majority(examples: Sequence[LabelledExample]) -> Interval:
    """Returns the share of the largest class."""
    counts = collections.Counter(example.label for example in examples)
    return statistics.wilson(max(counts.values()), len(examples))


def draw(
    examples: Sequence[LabelledExample],
    labels: Sequence[str],
    config: AnalysisConfig,
) -> list[list[LabelledExample]]:
    """Draws `shots` examples of each class, `NUM_DRAWS` times."""
    random = np.random.default_rng(config.seed)
    of_class = {
        label: [x for x in examples if x.label == label] for label in labels
    }
    for label, available in of_class.items():
        if len(available) < config.shots:
            raise UserError(
                f"--dev must have {config.shots} examples of each class. "
                f"Received: {len(available)} of {label}. Lower --shots."
            )
    return [
        [
            available[i]
            for available in of_class.values()
            for i in random.choice(len(available), config.shots, replace=False)
        ]
        for _ in range(NUM_DRAWS)
    ]


Labelled = tuple[np.ndarray, Sequence[str]]
"""Label scores of examples, float64 [examples, labels], and their classes."""


def _few_shot_accuracy(
    draws: Sequence[Labelled], test_examples: Labelled, config: AnalysisConfig
) -> Interval:
    """Computes the accuracy of logistic regressions on label scores."""
    accuracies = np.array(
        [probes.fit_classifier(*one).score(*test_examples) for one in draws]
    )
    return statistics.bootstrap(
        lambda i: accuracies[i].mean(), len(accuracies), config
    )
