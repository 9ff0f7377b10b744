r"""Checks training on an accelerator against the CPU, and measures it.

    python tools/accelerator_check.py --device=gpu
    python tools/accelerator_check.py --device=cpu --quick

Prints two tables in Markdown. The first has the checks: 20 losses of a small
model equal those of the same updates on the CPU, both in float32; a run resumed
from a checkpoint ends with the same bits; several replicas compute the same as
one. The second has speed and memory of whole updates of Small and Base on
random tokens. No data are needed; it takes about ten minutes on an otherwise
idle machine. The command fails if a check does.

--device=cpu --quick does the same with tiny models on two logical CPU devices,
to test the command itself; its figures mean nothing.
"""

import dataclasses
import gc
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util import console
from electra_tf.util.errors import UserError
from electra_tf.util.flags import Checked, one_of, parse_flags, run_command

_ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(_ROOT / "tools" / "benchmarks"))  # measuring

_NUM_UPDATES = 20
_CPU_TOLERANCE = 1e-3
"""Greatest relative difference of losses to the CPU's. Sums are in another
order, and the differences accumulate over 20 updates."""
_REPLICA_TOLERANCE = 1e-4
_EXACT = ("--deterministic", "--precision=float32")
_SIZES = {
    "small": ("--train_batch_size=128",),
    "base": ("--train_batch_size=32",),
}
"""Configuration -> flags that override it, so that 40 GB are enough."""
_TINY = (
    "--hidden_size=16",
    "--num_hidden_layers=1",
    "--num_attention_heads=1",
    "--intermediate_size=16",
    "--embedding_size=8",
    "--generator_hidden_size=1",
    "--vocab_size=64",
    "--max_seq_length=16",
    "--train_batch_size=8",
)
_SECONDS_PER_BLOCK = 3.0
_NUM_BLOCKS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckConfig(Checked):
    """What to check."""

    device: str = one_of("gpu", "tpu", "cpu")
    """Kind of device to train on."""
    quick: bool = False
    """Use tiny models, and measure their speed only briefly."""
    precisions: tuple[str, ...] = ("bfloat16",)
    """Precisions to measure speed and memory in."""


class Check(NamedTuple):
    """A line of the first table."""

    name: str
    found: str
    passed: bool | None


class Run(NamedTuple):
    """Results of a training."""

    losses: np.ndarray
    variables: dict[str, np.ndarray]


def main(config: CheckConfig) -> None:
    """Measures, checks, and prints the tables."""
    devices = _devices(config.device)
    speeds = [
        _speed(config, size, precision, devices[0])
        for size in _SIZES
        for precision in config.precisions
    ]
    checks = _checks(config, len(devices))
    results = {True: "pass", False: "FAILS", None: "not run"}
    for line in (
        _describe(config, devices),
        console.markdown_table(
            [
                ("check", "found", "result"),
                *((x.name, x.found, results[x.passed]) for x in checks),
            ]
        ),
        console.markdown_table(
            [
                (
                    "size, precision, rows x tokens",
                    "updates/s",
                    "sequences/s",
                    "s an update, min to max",
                    "s to the first update",
                    "peak memory, GB",
                ),
                *speeds,
            ]
        ),
    ):
        print(line)
    if failed := [x.name for x in checks if x.passed is False]:
        raise UserError(
            f"Every check must pass. Received: {', '.join(failed)}, which "
            "failed; the table above says by how much."
        )


def _devices(kind: str) -> list[str]:
    """Returns the names of all devices of a kind."""
    import tensorflow as tf

    from electra_tf.util import distribution

    if kind == "tpu":
        distribution.make_strategy("tpu")  # raises where there is none
    if kind == "cpu":
        tf.config.set_visible_devices([], "GPU")
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * 2,
        )
    found = [x.name for x in tf.config.list_logical_devices(kind.upper())]
    if not found:
        raise UserError(
            f"--device={kind} needs a {kind} that TensorFlow can use. "
            "Received: none. To try the checks themselves: --device=cpu --quick"
        )
    return found


def _describe(config: CheckConfig, devices: Sequence[str]) -> str:
    import measuring
    import tensorflow as tf

    details = [
        tf.config.experimental.get_device_details(x).get("device_name", x.name)
        for x in tf.config.list_physical_devices(config.device.upper())
    ]
    machine = measuring.machine("tensorflow", "keras")
    versions = machine["versions"]
    libraries = [f"{k} {v}" for k, v in versions.items()]
    cpu = machine["cpu"]
    return (
        f"{len(devices)} x {(details or devices)[0]}, {cpu}, "
        f"{', '.join(libraries)}{'; tiny models' if config.quick else ''}.\n"
    )


def _experiment(
    config: CheckConfig, name: str, flags: Sequence[str], strategy: str = ""
) -> PretrainingConfig:
    """Returns a configuration of configs/, overridden by flags."""
    strategy = strategy or {"tpu": "tpu"}.get(config.device, "one")
    flags = [f"--flagfile={_ROOT}/configs/{name}.cfg", *flags]
    flags += _TINY if config.quick else ()
    return parse_flags(PretrainingConfig, [*flags, f"--strategy={strategy}"])


def _speed(
    config: CheckConfig, size: str, precision: str, device: str
) -> tuple[str, ...]:
    """Returns a line of the second table."""
    import tensorflow as tf
    from measuring import Steps, spread

    flags = (*_SIZES[size], f"--precision={precision}")
    experiment = _experiment(config, size, flags)
    num_rows = experiment.training.train_batch_size
    shape = f"{num_rows} x {experiment.corpus.max_seq_length}"
    name = f"{size}, {precision}, {shape}"
    gc.collect()  # frees the previous model
    if config.device != "cpu":
        tf.config.experimental.reset_memory_stats(device)
    try:
        steps = Steps(experiment)
        first = steps.seconds(1)
        count = 1
        if not config.quick:
            count = max(1, round(_SECONDS_PER_BLOCK / steps.seconds(2)))
        times = spread(steps.seconds(count) for _ in range(_NUM_BLOCKS))
    except tf.errors.ResourceExhaustedError:
        return (name, "not run: out of memory", *[""] * 4)
    per_second = 1 / times["median"]
    return (
        name,
        f"{per_second:.3g}",
        f"{num_rows * per_second:.4g}",
        f"{times['min']:.4g} to {times['max']:.4g}",
        f"{first:.1f}",
        f"{_peak_memory_gb(device):.2f}",
    )


def _peak_memory_gb(device: str) -> float:
    """Returns the peak memory of a device; for a CPU, of this process."""
    import measuring
    import tensorflow as tf

    if "CPU" in device:
        return measuring.peak_memory_gb()
    return tf.config.experimental.get_memory_info(device)["peak"] / 1e9


def _checks(config: CheckConfig, num_devices: int) -> list[Check]:
    """Trains the same small model in every way, and compares the results."""
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)
    debug = f"--flagfile={_ROOT}/configs/debug.cfg"
    steps = f"--num_train_steps={_NUM_UPDATES}"

    def run(
        strategy: str = "", *, directory: str = "", jit_compile: str = "auto"
    ) -> Run:
        flags = (debug, steps, *_EXACT, f"--jit_compile={jit_compile}")
        experiment = _experiment(config, "small", flags, strategy)
        return _train(experiment, directory)

    with tempfile.TemporaryDirectory() as directory:
        uninterrupted, resumed = (run(directory=directory) for _ in range(2))
    with tf.device("CPU:0"):
        on_cpu = run("one", jit_compile="false")
    name = f"losses of {num_devices} replicas equal those of one"
    if config.device == "tpu":
        replicas = Check(name, "every run on TPUs uses all replicas", None)
    elif num_devices == 1:
        replicas = Check(name, "only one device", None)
    else:
        replicas = _compare_losses(
            name, run("mirrored"), uninterrupted, _REPLICA_TOLERANCE
        )
    return [
        _compare_losses(
            "losses equal the CPU's", uninterrupted, on_cpu, _CPU_TOLERANCE
        ),
        _compare_variables(uninterrupted, resumed),
        replicas,
    ]


def _train(config: PretrainingConfig, directory: str) -> Run:
    """Trains to the end, resuming from the directory's checkpoint if any."""
    from measuring import Steps

    from electra_tf.checkpoint.bundles import Checkpoints
    from electra_tf.training.updates import checkpoint_variables

    steps = Steps(config)
    variables = checkpoint_variables(steps.model)
    store = Checkpoints(directory, variables)
    half = config.training.num_train_steps // 2
    first = np.zeros(0)
    if not directory or store.restore_latest() is None:
        first = steps.losses(half)
        if directory:
            store.save(half)
    losses = np.concatenate([first, steps.losses(half)])
    return Run(losses, {k: v.numpy() for k, v in variables.items()})


def _compare_losses(
    name: str, found: Run, expected: Run, tolerance: float
) -> Check:
    differences = np.abs(found.losses / expected.losses - 1)
    worst = differences.max() if np.isfinite(differences).all() else np.inf
    found_text = (
        f"largest difference {worst:.1e}, at most {tolerance:.0e} allowed"
    )
    return Check(name, found_text, bool(worst <= tolerance))


def _compare_variables(uninterrupted: Run, resumed: Run) -> Check:
    names = [
        name
        for name, value in uninterrupted.variables.items()
        if value.tobytes() != resumed.variables[name].tobytes()
    ]
    found_text = (
        f"{len(names)} of {len(uninterrupted.variables)} variables differ"
    )
    return Check("a resumed run ends with the same bits", found_text, not names)


if __name__ == "__main__":
    run_command(main, CheckConfig)
