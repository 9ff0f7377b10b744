"""Facts about a run for its model card."""

import itertools
import os
from collections.abc import Iterable, Mapping
from typing import Any

from electra_tf.checkpoint.model_card import NO_FACTS, Facts
from electra_tf.config.objectives import get_class
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.data.dataset_files import stored_manifest
from electra_tf.pretrain.flops import training_flops
from electra_tf.training.callbacks import TRAINING_FLOPS
from electra_tf.util import config_files, files, storage
from electra_tf.util.errors import UserError


def of_directory(model_dir: storage.Path, step: int) -> Facts:
    """Collects facts from the directory of a run."""
    path = model_dir / config_files.CONFIG_FILE
    if not storage.exists(path):
        return NO_FACTS
    try:
        config = config_files.load_config(path, PretrainingConfig)
    except UserError:  # somebody else's config.json
        return NO_FACTS
    return of_run(config, step, model_dir)


def of_run(
    config: PretrainingConfig,
    step: int,
    model_dir: storage.Path | None = None,
) -> Facts:
    """Collects facts from the configuration and the directory of a run."""
    manifest = _manifest(config)
    costs = {}
    vocab_size = manifest.get("vocab_size")
    if step and vocab_size:
        cost = training_flops(config, vocab_size, step)
        costs["training FLOPs"] = f"{cost:.3e}"
    phases, facts = config.phases, of_config(config)
    return facts._replace(
        model_name=config.run.model_name,
        training={
            **costs,
            **facts.training,
            "batch size": _per_phase(p.batch_size for p in phases),
            "sequence length": _per_phase(p.max_seq_length for p in phases),
            "learning rate": f"{config.optimizer.learning_rate}",
        },
        manifest=manifest,
        metrics=_metrics(
            model_dir or storage.as_path(config.run.model_dir), step
        ),
    )


def of_config(config: PretrainingConfig) -> Facts:
    """Collects the facts that hold whatever data `fit` is given."""
    return Facts(
        has_energies=get_class(config.objective.objective).token_output
        == "energies",
        training={
            "objective": config.objective.objective,
            "masking probability": f"{config.masking.mask_prob}",
            "seed": f"{config.training.seed}",
        },
    )


def _metrics(model_dir: storage.Path, step: int) -> Mapping[str, float]:
    """Returns the metrics on held-out text at a step; none at another one."""
    path = model_dir / "results" / "pretraining_eval.json"
    metrics = files.read_object(path) if storage.exists(path) else {}
    if metrics.pop("global_step", None) != step:
        return {}
    metrics.pop(TRAINING_FLOPS, None)
    return metrics


def _manifest(config: PretrainingConfig) -> Mapping[str, Any]:
    named = storage.split_patterns(config.data.pretrain_tfrecords)[0]
    directory = os.path.dirname(named) if named else config.records_dir
    return stored_manifest(directory)


def _per_phase(numbers: Iterable[int]) -> str:
    """Lists the numbers of successive phases; repeated ones once."""
    changes = (number for number, _ in itertools.groupby(numbers))
    return ", then ".join(f"{number:,}" for number in changes)
