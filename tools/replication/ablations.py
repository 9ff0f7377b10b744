"""Runs every row of the paper's Table 5 in turn and prints what came out.

    python tools/replication/ablations.py
    python tools/replication/ablations.py --rows=electra,bert \
        --flagfile=configs/small.cfg --data_dir=DIR

All flags but --rows go to `electra_tf.run_pretraining`, once for each file in
configs/ablations, which is laid over them: the rows differ in their objective
alone and share the vocabulary and the records of one --data_dir. Without a
--flagfile they are laid over configs/demo.cfg. A row that is
finished is not run again; one that was stopped continues where it was.

The paper compares rows by fine-tuning on GLUE; what is printed here is only how
well each learned its own task on the held-out text.

Source: paper, section 3.4 and table 5.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from electra_tf import flops_computation
from electra_tf.flops_computation import FlopsConfig
from electra_tf.util import config_flags
from electra_tf.util.errors import ExitCode, UserError

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = {
    "electra": 85.0,
    "all_tokens_mlm": 84.3,
    "replace_mlm": 82.4,
    "electra_15": 82.4,
    "bert": 82.2,
}
"""File in configs/ablations -> GLUE (dev) of the paper's Base."""

_DEFAULT = f"--flagfile={ROOT / 'configs' / 'demo.cfg'}"
_METRICS = {
    "mlm": "masked_lm_loss",
    "mlm acc": "masked_lm_accuracy",
    "AUC": "disc_auc",
    "cor": "corrector_loss",
    "cor acc": "corrector_accuracy",
}
_WIDTHS = (4, 9, 7, *(7 for _ in _METRICS))
_NOTES = """\
GLUE   (dev) of the paper's Base, to compare the order with
FLOPs  of the whole run by the paper's rules (electra_tf/pretrain/flops.py)
mlm    held-out loss (nats) and accuracy at the masked tokens: of the encoder
       itself for bert, of the generator elsewhere
AUC    the discriminator's area under the ROC curve: over all tokens, but over
       the chosen 15 % for electra_15
cor    loss (nats) and accuracy of the encoder that predicts words: over all
       tokens for all_tokens_mlm, over the chosen 15 % for replace_mlm"""


class Row(NamedTuple):
    """One row of the table.

    Attributes:
      name: of the file in configs/ablations.
      flags: of its run.
      config: that the flags stand for.
    """

    name: str
    flags: tuple[str, ...]
    config: FlopsConfig

    @property
    def model_dir(self) -> pathlib.Path:
        """Where the run is."""
        return pathlib.Path(self.config.run.model_dir)

    def metrics(self) -> dict[str, float] | None:
        """Returns the held-out metrics; None if the run is not finished.

        Raises:
          UserError: if it is finished but was another experiment.
        """
        path = self.model_dir / "results" / "pretraining_eval.json"
        if not path.exists():
            return None
        config_flags.check_same_experiment(
            self.model_dir / "config.json", self.config
        )
        metrics = json.loads(path.read_text())
        is_done = metrics["global_step"] == self.config.training.num_train_steps
        return metrics if is_done else None

    def flops(self) -> int:
        """Counts the whole run, with the vocabulary that it has."""
        config = self.config
        words = pathlib.Path(config.vocab_file).read_text("utf-8").split("\n")
        num_words = len(words) - (not words[-1])
        corpus = dataclasses.replace(config.corpus, vocab_size=num_words)
        config = dataclasses.replace(config, corpus=corpus)
        return flops_computation.config_flops(config)["whole run"]


def make_row(name: str, flags: Sequence[str]) -> Row:
    """Lays a row's file over flags.

    Raises:
      UserError: if a flag cannot be used.
    """
    path = ROOT / "configs" / "ablations" / f"{name}.cfg"
    flags = (*flags, f"--flagfile={path}")
    return Row(name, flags, config_flags.parse(FlopsConfig, flags))


def table(results: Mapping[str, Mapping[str, float]]) -> str:
    """Formats results.

    Args:
      results: row -> "steps", "flops" and metrics; those that are not there
        are left blank.
    """
    heads = ("row", "GLUE", "steps", "FLOPs", *_METRICS)
    lines = [_line(heads)]
    for name, found in results.items():
        cells = [name, f"{ROWS[name]:.1f}", f"{found['steps']:,}"]
        cells.append(f"{found['flops']:.2e}".replace("e+", "e"))
        for metric in _METRICS.values():
            cells.append(f"{found[metric]:.4f}" if metric in found else "-")
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    first, *others = cells
    return f"{first:14}" + "".join(
        f" {cell:>{width}}" for cell, width in zip(others, _WIDTHS, strict=True)
    )


def run(rows: Sequence[Row]) -> int:
    """Runs what is not finished, then prints the table of what is.

    Returns:
      0, or the exit code of the run that failed; those after it are not begun.
    """
    results, code = {}, 0
    for row in rows:
        metrics = row.metrics()
        if metrics is not None:
            print(f"== {row.name}: finished before, in {row.model_dir}")
        elif not code:
            print(f"== {row.name}: {row.model_dir}", flush=True)
            code = _train(row.flags)
            metrics = row.metrics()
        if metrics is not None:
            steps = row.config.training.num_train_steps
            more = {"steps": steps, "flops": row.flops()}
            results[row.name] = {**metrics, **more}
    print(f"\n{table(results)}\n\n{_NOTES}")
    if not code and len(results) < len(rows):
        print("Some rows have no held-out metrics.", file=sys.stderr)
        code = ExitCode.BAD_INPUT
    return code


def _train(flags: Sequence[str]) -> int:
    path = os.pathsep.join(filter(None, [str(ROOT), os.getenv("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "electra_tf.run_pretraining", *flags],
        env={**os.environ, "PYTHONPATH": path},
    ).returncode


def main(arguments: Sequence[str]) -> int:
    """Does what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--rows", default=",".join(ROWS), help="files in configs/ablations"
    )
    options, flags = parser.parse_known_args(arguments)
    names = options.rows.split(",")
    if unknown := [name for name in names if name not in ROWS]:
        raise UserError(
            f"`rows` must be of {', '.join(ROWS)}. Received: "
            f"{', '.join(unknown)}."
        )
    if not any(flag.startswith("--flagfile") for flag in flags):
        flags = [_DEFAULT, *flags]
    return run([make_row(name, flags) for name in names])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
