r"""Creates a Python environment for each peer of the benchmarks.

    python tools/benchmarks/environments.py --dir=DIR
    python tools/benchmarks/environments.py --dir=DIR --names=electra_tf,torch
    python tools/benchmarks/peer_step.py --environments=DIR

The packages of one peer thus do not affect another: each has its own NumPy, its
own libraries for matrix products, its own threads. DIR/<name> is created by
`venv`, and pip installs the packages pinned below; in an existing environment
it updates them. pip reads its own settings: with PIP_EXTRA_INDEX_URL or
PIP_FIND_LINKS it finds the CPU builds of PyTorch, which are gigabytes smaller.
"""

import dataclasses
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence

import checks
import machine
from peers import SIZES, encoder_sizes

from electra_tf.util import config_flags, console
from electra_tf.util.config_fields import (
    Checked,
    bounded,
    one_of,
    required,
)
from electra_tf.util.errors import UserError

ROOT = pathlib.Path(__file__).resolve().parents[2]
_TORCH = ("torch==2.13.0", "transformers==5.23.0")
PACKAGES = {
    "electra_tf": ("--editable", f"{ROOT}[hf,onnx,tflite]"),
    "torch": _TORCH,
    "onnx": (
        *_TORCH,
        "onnx==1.23.2",
        "onnxruntime==1.32.0",
        "onnxscript==0.7.2",
    ),
}
"""Environment -> arguments of pip install."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnvironmentsConfig(Checked):
    """Which environments to create, and where."""

    dir: str = required("name a directory")
    """Parent directory of the environments. Required."""

    names: tuple[str, ...] = tuple(PACKAGES)
    """Environments to create: electra_tf, torch, onnx. Default: all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.require_known(self, "names", PACKAGES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PeersConfig(machine.QuietConfig):
    """Base of the configuration of a benchmark of peers."""

    environments: str = ""
    """Directory created by `environments.py`. Default: everything runs in the
    environment of this command."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig(PeersConfig):
    """Base of the configuration of a benchmark of peers of one encoder."""

    size: str = one_of(*SIZES)
    """Size of the encoder."""

    num_hidden_layers: int = bounded("at least 1", 12)
    """Layers of the encoder."""

    vocab_size: int = 30522
    """Tokens in the vocabulary."""

    threads: int = bounded("at least 1", 2)
    """Threads of each peer."""

    @property
    def sizes(self) -> dict[str, int]:
        """The encoder's sizes, see `peers.encoder_sizes`."""
        return encoder_sizes(
            self.size,
            num_hidden_layers=self.num_hidden_layers,
            vocab_size=self.vocab_size,
        )


def main(
    config: EnvironmentsConfig,
    run: Callable[[Sequence[str]], object] | None = None,
) -> None:
    """Creates environments."""
    for name in config.names:
        for command in commands(config.dir, name):
            (run or _run)(command)
        console.say(f"{name}: {_python(config.dir, name)}")


def commands(directory: str, name: str) -> list[list[str]]:
    """Returns the commands that create an environment."""
    pip = [str(_python(directory, name)), "-m", "pip", "install", "--quiet"]
    return [
        [sys.executable, "-m", "venv", str(pathlib.Path(directory, name))],
        [*pip, *PACKAGES[name]],
    ]


def find_python(directory: str, name: str) -> str:
    """Returns the path of an environment's Python."""
    if not directory:
        return sys.executable
    path = _python(directory, name)
    if not path.exists():
        raise UserError(
            f"`environments` must hold the environment of {name}. Received: "
            f"{directory!r}, where {path} does not exist. Create it: python "
            f"tools/benchmarks/environments.py --dir={directory} "
            f"--names={name}"
        )
    return str(path)


def variables() -> dict[str, str]:
    """Returns the environment variables of a peer's process."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _python(directory: str, name: str) -> pathlib.Path:
    return pathlib.Path(directory, name, "bin", "python").absolute()


def _run(command: Sequence[str]) -> None:
    if code := subprocess.run(command, check=False).returncode:
        raise UserError(
            "venv and pip must create the environment. Received: exit code "
            f"{code} of {' '.join(command)}. See its output above, then run "
            "the same command again."
        )


if __name__ == "__main__":
    config_flags.run(main, EnvironmentsConfig)
