"""Measures and plots how the cost of an update scales.

    python tools/benchmarks/scaling.py --output_dir=DIR --environments=DIR
    python tools/benchmarks/scaling.py --output_dir=DIR --quick

It pre-trains ELECTRA-Small with our model and with Hugging Face's in PyTorch,
as in `peer_step.py`. Starting from 16 rows of 128 tokens, one size is varied at
a time: rows of a batch, tokens of a row, width of the networks, vocabulary, and
the share of rows that hold four documents, which PyTorch's models do not
support. Each point is measured in a process of its own, so that peak memory is
that of the point. It prints one JSON line, and plots DIR/time.png and
DIR/memory.png; --quick measures the smallest and largest values only.
"""

import contextlib
import dataclasses
import functools
import json
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import checks
import environments
import machine
from peer_step import PRECISIONS, Worker
from peers import Setting
from reports import spread

from electra_tf.util import config_flags, console, optional_packages, plotting
from electra_tf.util.config_fields import bounded, one_of, required

_BATCH_SIZE, _LENGTH, _HIDDEN_SIZE, _VOCAB_SIZE = 16, 128, 256, 30522
_EMBEDDING_SIZE = 128
_HEAD_SIZE = 64
_MAX_LENGTH = 512
_VARIANTS = {"electra_tf": "", "torch": "fused"}
_INCHES = (12, 2.8)

DIMENSIONS = {
    "batch_size": (4, 8, 16, 32, 64),
    "max_seq_length": (64, 128, 256, 512),
    "hidden_size": (128, 256, 512, 768),
    "vocab_size": (4096, 30522, 65536, 131072),
    "packed_share": (0.0, 0.5, 1.0),
}
"""Size that is varied -> its values."""
_LABELS = {
    "batch_size": "rows of a batch",
    "max_seq_length": "tokens of a row",
    "hidden_size": "width (hidden_size)",
    "vocab_size": "words of the vocabulary",
    "packed_share": "share of packed rows",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScalingConfig(environments.PeersConfig):
    """What to measure, and where to write the plots."""

    output_dir: str = required("name a directory")
    """Directory of the plots. Required."""

    quick: bool = False
    """Measure only the smallest and the largest value of each size."""

    dimensions: tuple[str, ...] = tuple(DIMENSIONS)
    """Sizes to vary: batch_size, max_seq_length, hidden_size, vocab_size,
    packed_share."""

    peers: tuple[str, ...] = tuple(_VARIANTS)
    """Peers to measure: electra_tf, torch."""

    precision: str = one_of(*PRECISIONS)
    """Precision of the training."""

    num_hidden_layers: int = bounded("at least 1", 12)
    """Layers of both networks."""

    threads: int = bounded("at least 1", 2)
    """Threads of each peer."""

    turns: int = bounded("at least 1", 5)
    """Number of timed updates of each point."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.require_known(self, "peers", _VARIANTS, some=True)
        checks.require_known(self, "dimensions", DIMENSIONS, some=True)

    def values(self, dimension: str) -> tuple[float, ...]:
        """Returns the values of a dimension to measure."""
        values = DIMENSIONS[dimension]
        return (values[0], values[-1]) if self.quick else values


class Point(NamedTuple):
    """One measurement."""

    peer: str
    dimension: str
    value: float


class Cost(NamedTuple):
    """The cost of an update."""

    seconds: tuple[float, ...]
    peak_memory_gb: float


def points(config: ScalingConfig) -> Iterator[Point]:
    """Yields the points to measure; packed rows are for electra_tf only."""
    for dimension in config.dimensions:
        for value in config.values(dimension):
            for peer in config.peers:
                if dimension != "packed_share" or peer == "electra_tf":
                    yield Point(peer, dimension, value)


def setting(config: ScalingConfig, point: Point) -> Setting:
    """Returns the setting of a point's worker."""
    changed = {point.dimension: point.value}
    hidden_size = changed.get("hidden_size", _HIDDEN_SIZE)
    return Setting(
        precision=config.precision,
        sizes={
            "vocab_size": changed.get("vocab_size", _VOCAB_SIZE),
            "embedding_size": _EMBEDDING_SIZE,
            "hidden_size": hidden_size,
            "num_hidden_layers": config.num_hidden_layers,
            "num_attention_heads": hidden_size // _HEAD_SIZE,
            "intermediate_size": 4 * hidden_size,
            "max_position_embeddings": _MAX_LENGTH,
        },
        batch_size=changed.get("batch_size", _BATCH_SIZE),
        length=changed.get("max_seq_length", _LENGTH),
        threads=config.threads,
        variant=_VARIANTS[point.peer],
        packed_share=changed.get("packed_share", 0.0),
    )


def main(config: ScalingConfig) -> None:
    """Measures all points, draws them, and prints the figures."""
    optional_packages.load("matplotlib.figure", "plots")
    quiet = machine.QuietMachine(config.busy_limit)
    costs, versions = _measure(config, quiet)
    output = pathlib.Path(config.output_dir)
    output.mkdir(parents=True, exist_ok=True)
    draw(
        output / "time.png",
        "seconds of an update, the fastest",
        {x: min(cost.seconds) for x, cost in costs.items()},
    )
    draw(
        output / "memory.png",
        "peak memory, GB",
        {x: cost.peak_memory_gb for x, cost in costs.items()},
    )
    report = {
        "benchmark": "scaling",
        **versions,
        **quiet.report(),
        **dataclasses.asdict(config),
        "points": [
            {
                **point._asdict(),
                "seconds_per_step": spread(cost.seconds),
                "peak_memory_gb": cost.peak_memory_gb,
            }
            for point, cost in costs.items()
        ],
    }
    print(json.dumps(report))


def _measure(
    config: ScalingConfig, quiet: machine.QuietMachine
) -> tuple[dict[Point, Cost], dict[str, str]]:
    """Returns the costs of all points, and the versions of the libraries."""
    costs, versions, measured = {}, {}, {}
    for point in points(config):
        worker_setting = setting(config, point)
        # A common point is measured once.
        key = (point.peer, str(worker_setting))
        if key not in measured:
            python = environments.find_python(config.environments, point.peer)
            worker = Worker("pretrain", point.peer, worker_setting, python)
            with contextlib.closing(worker):
                measured[key] = _cost(worker, quiet, config.turns)
            versions |= worker.versions
        costs[point] = measured[key]
        median = spread(costs[point].seconds)["median"]
        console.warn(f"{' '.join(map(str, point))}: {median:.3f} s")
    return costs, versions


def _cost(worker: Worker, quiet: machine.QuietMachine, num_turns: int) -> Cost:
    """Measures one point."""
    update = functools.partial(worker.update, 1)
    turns = [quiet.take(update, worker.pid) for _ in range(num_turns)]
    seconds = tuple(turn["wall"] for turn in turns)
    return Cost(seconds, turns[-1]["peak_memory_gb"])


def draw(path: pathlib.Path, label: str, figures: dict[Point, float]) -> None:
    """Draws a figure against each dimension, with a line for each peer."""
    dimensions = list(dict.fromkeys(x.dimension for x in figures))
    picture = plotting.make_figure(*_INCHES)
    panels = picture.subplots(1, len(dimensions), sharey=True, squeeze=False)[0]
    for axes, dimension in zip(panels, dimensions, strict=True):
        for peer, colour in zip(_VARIANTS, plotting.COLOURS, strict=False):
            line = [
                (x.value, y)
                for x, y in figures.items()
                if x.peer == peer and x.dimension == dimension
            ]
            if line:
                axes.plot(
                    *zip(*line, strict=True), "o-", color=colour, label=peer
                )
        plotting.set_style(axes, "", _LABELS[dimension])
        axes.locator_params(axis="x", nbins=4)
        axes.set_xlim(left=0)
    plotting.set_style(panels[0], label, _LABELS[dimensions[0]])
    panels[0].set_ylim(bottom=0)
    panels[0].legend(frameon=False, fontsize=9)
    plotting.save(picture, path)


if __name__ == "__main__":
    config_flags.run(main, ScalingConfig)
