"""The import order of the package, and calls that it never makes."""

import ast
import functools
import pathlib
import subprocess
import sys

import pytest

import electra_tf

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


@functools.cache
def _nodes(source):
    return tuple(ast.walk(ast.parse(source)))


def _imported(path):
    """Yields the modules of this package that a file imports, but for LATE."""
    for node in _nodes(path.read_text()):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if (
                name.startswith("electra_tf.")
                and (_name(path), name) not in LATE
            ):
                yield name


def _layer(module):
    """Returns the layer of a module."""
    first = module.split(".")[1]
    if first.startswith("configure_"):
        return "configure"
    if first in TASKS:
        return "task"
    return first if first in LAYERS else "script"


def _name(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _may_import(name, module):
    own, other = _layer(name), _layer(module)
    if own in ("config", "configure") and other not in CONFIGURATION:
        return False
    if own == other == "script":
        return False
    if own == other == "task":
        return name.split(".")[1] == module.split(".")[1]
    return LAYERS.index(other) <= LAYERS.index(own)


def test_imports_go_down():
    upwards = [
        f"{_name(path)} imports {module}"
        for path in SOURCES
        for module in _imported(path)
        if path != PACKAGE / "__init__.py"
        and not _may_import(_name(path), module)
    ]
    assert not upwards


def test_imports_have_no_cycles():
    modules = {_name(path): path for path in SOURCES}
    imports = {name: set() for name in modules}
    for name, path in modules.items():
        for module in _imported(path):
            if module not in modules:
                module = module.rpartition(".")[0]
            imports[name] |= {module} & modules.keys()
    while leaves := [
        name for name, imported_names in imports.items() if not imported_names
    ]:
        for name in leaves:
            del imports[name]
        for imported_names in imports.values():
            imported_names -= set(leaves)
    assert not imports


def test_what_public_classes_take_and_raise_is_public():
    needed = {"AdamWeightDecayOptimizer", "BertConfig", "PretrainingConfig"}
    needed |= {"QAConfig", "Vocabulary", "UserError", "ElectraWarning"}
    assert needed <= {*dir(electra_tf)}
    for name in electra_tf._PUBLIC:
        assert getattr(electra_tf, name).__name__ == name


@pytest.mark.parametrize("script", COMMANDS)
def test_help_needs_no_tensorflow(script):
    """Importing TensorFlow takes seconds; help should appear at once."""
    command = ["-X", "importtime", "-m", f"electra_tf.{script}", "--help"]
    ended = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT
    )
    assert ended.returncode == 0 and "--" in ended.stdout
    imported = {line.split()[-1] for line in ended.stderr.splitlines()}
    assert "absl" in imported
    assert not imported & {"tensorflow", "keras", "tensorflow_text"}


def _dotted(node):
    """Returns the dotted name of a called function, "a.b.c"."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _dangers(source):
    """Returns the imports, calls and arguments that could run foreign code."""
    found = []
    for node in _nodes(source):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [getattr(node, "module", None) or ""]
            names += [alias.name for alias in node.names]
            found += {x.partition(".")[0] for x in names} & SERIALIZERS
        if not isinstance(node, ast.Call):
            continue
        name = _dotted(node.func)
        given = {x.arg: getattr(x.value, "value", x) for x in node.keywords}
        found += [name] * (name in NEVER)
        found += [x for x in SAFE if given.get(x, SAFE[x]) is not SAFE[x]]
        found += [name] * (name == "torch.load" and "weights_only" not in given)
    return found


def test_nothing_is_unpickled_or_run_from_a_file():
    found = {_name(path): _dangers(path.read_text()) for path in SOURCES}
    assert not {name: dangers for name, dangers in found.items() if dangers}


def test_dangerous_calls_are_distinguished_from_harmless_ones():
    dangerous = """
        import pickle; from marshal import loads; import dill as d
        from joblib import load; eval(x); exec(x, {}); yaml.load(x)
        os.system(x); np.load(x, allow_pickle=True); np.load(x, allow_pickle=y)
        torch.load(x); torch.load(x, weights_only=False)
        subprocess.run(x, shell=True); keras.models.load_model(x, safe_mode=y)
        keras.config.enable_unsafe_deserialization()
    """
    harmless = """
        np.load(x); model.eval(); re.compile(x); ast.literal_eval(x)
        torch.load(x, weights_only=True); subprocess.run(x)
        keras.models.load_model(x); yaml.safe_load(x)
    """
    for is_dangerous, statements in ((True, dangerous), (False, harmless)):
        for statement in statements.replace("\n", ";").split(";"):
            assert bool(_dangers(statement.strip())) == (
                is_dangerous and bool(statement.strip())
            )
