"""The environments of the benchmarks: commands that create them, and pins."""

import subprocess
import sys

import environments
import pytest
from packaging.requirements import Requirement

from electra_tf.util.errors import UserError


def _commands(**flags):
    commands = []
    config = environments.EnvironmentsConfig(dir="there", **flags)
    environments.main(config, commands.append)
    return commands


def test_each_environment_is_made_by_venv_and_filled_by_its_pip():
    commands = _commands(names=("torch", "electra_tf"))
    assert len(commands) == 4
    for name, (make, fill) in zip(
        ("torch", "electra_tf"), (commands[:2], commands[2:]), strict=True
    ):
        assert make[:3] == [sys.executable, "-m", "venv"]
        assert make[3].endswith(f"there/{name}")
        assert f"there/{name}/" in fill[0]
        assert fill[1:4] == ["-m", "pip", "install"]
        assert fill[5:] == list(environments.PACKAGES[name])
    assert len(_commands()) == 2 * len(environments.PACKAGES)


def test_our_environments_install_this_checkout():
    assert (environments.ROOT / "electra_tf/__init__.py").exists()
    checkout = f"{environments.ROOT}[hf,onnx,tflite]"
    assert environments.PACKAGES["electra_tf"] == ("--editable", checkout)


def test_pinned_versions_are_within_the_ranges_of_setup_py():
    text = (environments.ROOT / "setup.py").read_text()
    for name in ("torch", "transformers"):
        start = text.index(f'"{name}>=')
        allowed = Requirement(text[start + 1 : text.index('"', start + 1)])
        for peer in ("torch", "onnx"):
            pins = map(Requirement, environments.PACKAGES[peer])
            (pin,) = [x for x in pins if x.name == name]
            (version,) = pin.specifier
            assert version.operator == "=="
            assert allowed.specifier.contains(version.version)


def test_python_defaults_to_the_running_interpreter():
    assert environments.find_python("", "torch") == sys.executable


def test_a_missing_environment_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"torch\. Received: .*--names=torch"):
        environments.find_python(str(tmp_path), "torch")
    python = tmp_path / "torch/bin/python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert environments.find_python(str(tmp_path), "torch") == str(python)


def test_unknown_names_and_missing_flags_are_refused():
    with pytest.raises(UserError, match=r"`dir` must name"):
        environments.EnvironmentsConfig()
    with pytest.raises(UserError, match=r"torch, onnx\. Received: .*jax"):
        _commands(names=("jax",))


def test_a_failing_command_is_an_error():
    with pytest.raises(UserError, match="Received: exit code 3"):
        environments._run([sys.executable, "-c", "raise SystemExit(3)"])


def test_a_worker_needs_no_package_of_ours(tmp_path):
    """Without site-packages a worker still parses flags; NumPy comes later."""
    worker = environments.ROOT / "tools/benchmarks/peer_worker.py"
    done = subprocess.run(
        [sys.executable, "-S", worker, "--help"],
        env=environments.variables(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "peer" in done.stdout
