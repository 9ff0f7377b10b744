"""The import order of the package, its size, and calls that it never makes."""

import ast
import functools
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "electra_tf"
SOURCES = sorted(PACKAGE.rglob("*.py"))
COMMANDS = sorted(
    path.stem
    for path in PACKAGE.glob("[!_]*.py")
    if "__main__" in path.read_text()
)
LAYERS = (
    "util",
    "config",
    "model",
    "checkpoint",
    "training",
    "configure",
    "data",
    "serving",
    "task",  # pretrain, finetune, analysis, which never import each other
    "script",
)
TASKS = ("pretrain", "finetune", "analysis")
CONFIGURATION = ("util", "config", "configure")
SERIALIZERS = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}
"""Modules that can run code from the files they read."""
NEVER = {
    *("eval", "exec", "compile", "os.system", "os.popen"),
    *("yaml.load", "yaml.full_load", "yaml.unsafe_load"),
    "keras.config.enable_unsafe_deserialization",
}
SAFE = {
    "allow_pickle": False,
    "safe_mode": True,
    "shell": False,
    "weights_only": True,
}
"""Argument -> the safe value, which runs no code from files."""
# Imports inside class methods, made when they are called.
LATE = {("electra_tf.model.networks", "electra_tf.checkpoint.loading")}
BUDGET = {
    name: numbers
    for name, *numbers in (
        line.split("\t")
        for line in (ROOT / "tests" / "budget.tsv").read_text().splitlines()
        if not line.startswith("#")
    )
}
"""Folder -> lines it may have and, while it has more, its present ceiling."""


@functools.cache
def nodes(path):
    return tuple(ast.walk(ast.parse(path.read_text())))


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports_of(path):
    """Returns the modules of this package that a file imports, but for LATE."""
    names = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    pairs = {(module_of(path), x) for x in names if x.startswith("electra_tf.")}
    return {name for _, name in pairs - LATE}


def layer_of(module):
    first = module.split(".")[1]
    if first.startswith("configure_"):
        return "configure"
    if first in TASKS:
        return "task"
    return first if first in LAYERS else "script"


def may_import(name, module):
    own, other = layer_of(name), layer_of(module)
    if own in ("config", "configure") and other not in CONFIGURATION:
        return False
    if own == other == "script":
        return False
    if own == other == "task":
        return name.split(".")[1] == module.split(".")[1]
    return LAYERS.index(other) <= LAYERS.index(own)


def test_imports_go_down():
    upwards = [
        f"{module_of(path)} imports {module}"
        for path in SOURCES
        for module in imports_of(path)
        if path != PACKAGE / "__init__.py"
        and not may_import(module_of(path), module)
    ]
    assert not upwards


def test_imports_have_no_cycles():
    modules = {module_of(path): path for path in SOURCES}
    left = {
        name: {
            module if module in modules else module.rpartition(".")[0]
            for module in imports_of(path)
        }
        & modules.keys()
        for name, path in modules.items()
    }
    while leaves := {name for name, names in left.items() if not names}:
        left = {
            name: names - leaves
            for name, names in left.items()
            if name not in leaves
        }
    assert not left


@pytest.mark.parametrize("folder", BUDGET)
def test_a_folder_has_at_most_its_lines(folder):
    listed = {name for name in BUDGET if name.startswith(f"{folder}/")}
    if folder == "electra_tf":  # the sum
        listed = set()
    found = 0
    for path in (ROOT / folder.split("/*")[0]).rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        is_deeper = folder.endswith("*.py") and path.parent != PACKAGE
        if not is_deeper and not name.startswith(
            tuple(f"{other}/" for other in listed)
        ):
            found += path.read_text().count("\n")
    assert found <= int(BUDGET[folder][-1])


@pytest.mark.parametrize("script", COMMANDS)
def test_help_needs_no_tensorflow(script):
    command = ["-X", "importtime", "-m", f"electra_tf.{script}", "--help"]
    ended = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT
    )
    assert ended.returncode == 0 and "--" in ended.stdout
    imported = {line.split()[-1] for line in ended.stderr.splitlines()}
    assert "absl" in imported
    assert not imported & {"tensorflow", "keras", "tensorflow_text"}


def dotted(node):
    """Returns the dotted name of a called function, "a.b.c"."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def dangers(path):
    """Returns the imports, calls and arguments that could run foreign code."""
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [getattr(node, "module", None) or ""]
            names += [alias.name for alias in node.names]
            found += {x.partition(".")[0] for x in names} & SERIALIZERS
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        given = {x.arg: getattr(x.value, "value", x) for x in node.keywords}
        found += [name] * (name in NEVER)
        found += [x for x in SAFE if given.get(x, SAFE[x]) is not SAFE[x]]
        found += [name] * (name == "torch.load" and "weights_only" not in given)
    return found


def test_nothing_is_unpickled_or_run_from_a_file():
    assert not [module_of(path) for path in SOURCES if dangers(path)]
