r"""Measures one training update against Hugging Face's models in PyTorch.

    python tools/benchmarks/environments.py --dir=DIR --names=electra_tf,torch
    python tools/benchmarks/peer_step.py --environments=DIR
    python tools/benchmarks/peer_step.py --environments=DIR --job=finetune \
        --size=base --batch_size=8

Both train the same networks on the same rows of random tokens: generator and
discriminator jointly (`pretrain_peers.py`), or a classifier on an encoder
(`finetune_peers.py`); forward and backward pass with dropout, clipping and
Adam. PyTorch has its fused attention, bfloat16 by autocast, memory kept between
updates as ours is, and the fastest of its fused optimizer, its foreach
optimizer and torch.compile. Each peer and precision runs in a process of its
own, with the Python of its environment (without --environments, that of this
command), and they take turns. A turn disturbed by another process, even by a
peer that is not idle, is repeated; a busy machine is refused (`machine.py`).

It prints one JSON line: wall-clock and CPU seconds (of all threads) of an
update, peak memory in 10^9 bytes, and the ratio of the time of PyTorch's
fastest variant to electra_tf's, turn by turn. For pre-training it adds the
speed of our update as a share of that of a large matrix product, and the share
of its time that clip and optimizer take, timed alone in the same process.
PyTorch's CPU time means little unless OMP_WAIT_POLICY=passive is set, as
waiting threads count.
"""

import contextlib
import dataclasses
import json
import pathlib
import statistics
import sys
from collections.abc import Mapping

import checks
import environments
import machine
import workers
from peers import Setting
from reports import median_ratio, spread

from electra_tf.util import config_flags
from electra_tf.util.config_fields import bounded, one_of

_WORKER = pathlib.Path(__file__).with_name("peer_worker.py")
VARIANTS = {"torch": ("fused", "foreach", "compiled"), "electra_tf": ("",)}
PRECISIONS = ("float32", "bfloat16")
_KINDS = ("cpu", "wall")

Times = list[dict[str, float]]
"""The answers of a worker to `update`, turn by turn."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig(environments.EncoderConfig):
    """What to measure."""

    job: str = one_of("pretrain", "finetune")
    """Pre-training with ELECTRA, or fine-tuning a classifier."""

    batch_size: int = bounded("at least 1", 32)
    """Rows in an update."""

    max_seq_length: int = bounded("at least 1", 128)
    """Tokens in a row."""

    peers: tuple[str, ...] = ("electra_tf", "torch")
    """Peers to measure: electra_tf, torch."""

    precisions: tuple[str, ...] = PRECISIONS
    """Precisions to measure: float32, bfloat16. The processes of all exist at
    the same time: if memory is scarce, measure one precision at a time."""

    turns: int = bounded("at least 1", 7)
    """Number of turns of each peer and precision."""

    steps: int = bounded("at least 1", 2)
    """Updates in a turn."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.require_known(self, "peers", VARIANTS, some=True)
        checks.require_known(self, "precisions", PRECISIONS, some=True)

    def setting(self, precision: str, variant: str) -> Setting:
        """Returns the setting of a worker."""
        return Setting(
            precision=precision,
            sizes=self.sizes,
            batch_size=self.batch_size,
            length=self.max_seq_length,
            threads=self.threads,
            variant=variant,
        )


class Worker(workers.Worker):
    """A process that trains on request."""

    def __init__(
        self,
        job: str,
        peer: str,
        setting: Setting,
        python: str = sys.executable,
    ) -> None:
        super().__init__(_WORKER, [job, peer], setting, python)
        self.update(2)  # traces, compiles, and makes the optimizer's slots

    def update(self, count: int) -> dict[str, float]:
        """Makes updates."""
        return self.ask(count)

    def figures(self) -> dict[str, float]:
        """Measures further figures of an update, see `Peer`."""
        return self.ask("figures")


def main(config: BenchmarkConfig) -> None:
    """Measures the peers in turn, and prints the figures."""
    quiet = machine.QuietMachine(config.busy_limit)
    with contextlib.ExitStack() as stack:
        peers = _start(config, stack)
        times, figures = _take_turns(config, peers, quiet)
    report = {"benchmark": "peer_step"}
    for worker in peers.values():
        report |= worker.versions
    report |= quiet.report() | dataclasses.asdict(config)
    print(json.dumps(report | _report(config, times, figures)))


def _start(
    config: BenchmarkConfig, stack: contextlib.ExitStack
) -> dict[str, Worker]:
    """Starts a worker for each precision, peer and variant: name -> worker."""
    peers = {}
    for precision in config.precisions:
        for peer in config.peers:
            python = environments.find_python(config.environments, peer)
            for variant in VARIANTS[peer]:
                name = "-".join(filter(None, (peer, precision, variant)))
                setting = config.setting(precision, variant)
                peers[name] = Worker(config.job, peer, setting, python)
                stack.callback(peers[name].close)
    return peers


def _take_turns(
    config: BenchmarkConfig,
    peers: Mapping[str, Worker],
    quiet: machine.QuietMachine,
) -> tuple[dict[str, Times], dict[str, dict[str, float]]]:
    """Returns the answers of each worker turn by turn, and its figures."""
    times = workers.take_turns(
        *(quiet, peers, config.turns),
        lambda name: peers[name].update(config.steps),
    )
    figures = {
        name: quiet.take(worker.figures, worker.pid)
        for name, worker in peers.items()
    }
    return times, {name: x for name, x in figures.items() if x}


def _report(
    config: BenchmarkConfig,
    times: Mapping[str, Times],
    figures: Mapping[str, Mapping[str, float]],
) -> dict:
    """Returns the measured figures for the report."""
    is_compared = set(config.peers) == set(VARIANTS)
    return {
        "seconds_per_step": {
            name: {k: spread(t[k] for t in times[name]) for k in _KINDS}
            for name in times
        },
        "peak_memory_gb": {
            name: times[name][-1]["peak_memory_gb"] for name in times
        },
        "torch_over_electra_tf": {
            precision: _ratios(precision, times)
            for precision in config.precisions
            if is_compared
        },
        "update": {
            name: {**found, **_shares(found, times[name])}
            for name, found in figures.items()
        },
    }


def _ratios(precision: str, times: Mapping[str, Times]) -> dict[str, float]:
    """Returns the time of PyTorch's fastest variant divided by ours."""
    rivals = [times[f"torch-{precision}-{x}"] for x in VARIANTS["torch"]]
    ours = times[f"electra_tf-{precision}"]
    ratios = {}
    for kind in _KINDS:
        rival = min(rivals, key=lambda x, k=kind: _median(x, k))
        ratios[kind] = median_ratio(
            [turn[kind] for turn in rival], [turn[kind] for turn in ours]
        )
    return ratios


def _shares(found: Mapping[str, float], times: Times) -> dict[str, float]:
    """Returns figures of an update as shares of its time."""
    seconds = _median(times, "wall")
    return {
        "share_of_ceiling": found["gflop_per_step"]
        / seconds
        / found["ceiling_gflop_per_second"],
        "weights_update_share": found["weights_update_seconds"] / seconds,
    }


def _median(times: Times, kind: str) -> float:
    return statistics.median(time[kind] for time in times)


if __name__ == "__main__":
    config_flags.run(main, BenchmarkConfig)
