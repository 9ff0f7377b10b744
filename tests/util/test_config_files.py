import dataclasses
import json
from typing import ClassVar

import pytest

from electra_tf.util import config_files
from electra_tf.util.config_fields import bounded, one_of
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Fast:
    rate: float = 0.5
    steps: int = bounded("at least 1", 10)
    fractions: tuple[float, ...] = (0.25, 0.5)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Free:
    data_dir: str = ""
    use_cache: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Config:
    free: _Free = _Free()
    fast: _Fast = _Fast()
    width: int | None = None
    sources: tuple[str, ...] = ()
    corpus: tuple[str, ...] = ()
    device: str = one_of("auto", "cpu")
    strip: bool = True
    deep: bool = False

    FREE_PARTS: ClassVar = frozenset({"free"})


@pytest.fixture
def path(tmp_path):
    """A file for a configuration."""
    return tmp_path / "config.json"


def _store(path, **changes):
    """Stores the default configuration with changed fields of any part."""
    stored = json.loads(json.dumps(dataclasses.asdict(_Config())))
    for name, value in changes.items():
        parts = (stored["free"], stored["fast"], stored)
        next(part for part in parts if name in part)[name] = value
    path.write_text(json.dumps(stored))


def test_stored_configuration_comes_back(path):
    config = _Config(
        fast=_Fast(steps=3), sources=("a", "b"), width=5, device="cpu"
    )
    config_files.save_config(path, config)
    assert config_files.load_config(path, _Config) == config
    config_files.check_same_experiment(path, config)


def test_free_parts_may_differ_or_lack_fields(path):
    _store(path, data_dir="a")
    config_files.check_same_experiment(
        path, _Config(free=_Free(use_cache=False))
    )
    _store(path, free={})
    assert config_files.load_config(path, _Config) == _Config()
    config_files.check_same_experiment(path, _Config())


def test_a_stored_tilde_is_the_home_directory(path, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    _store(path, corpus=["~/a"])
    config_files.check_same_experiment(path, _Config(corpus=("~/a",)))
    with pytest.raises(UserError, match="corpus:"):
        config_files.check_same_experiment(path, _Config(corpus=("/a",)))


def test_free_fields_of_other_parts_may_differ(path):
    _store(path, steps=3)
    config_files.check_same_experiment(path, _Config(), free_fields=["steps"])
    with pytest.raises(UserError, match="steps: 3 stored, 10 now"):
        config_files.check_same_experiment(path, _Config(), free_fields=["x"])


def test_every_field_that_differs_is_listed(path):
    _store(path, steps=3, sources=["a"])
    with pytest.raises(UserError) as error:
        config_files.check_same_experiment(path, _Config(fast=_Fast(rate=1.0)))
    text = str(error.value)
    assert "  steps: 3 stored, 10 now\n" in text
    assert "  rate: 0.5 stored, 1.0 now\n" in text
    assert "  sources: ['a'] stored, [] now\n" in text
    assert "fractions" not in text
    assert text.endswith(
        "\nGive --rate=0.5 --steps=3 --sources=a, or give another --model_name."
    )


def test_stored_values_are_shown_as_the_flags_to_give(path):
    _store(path, fractions=[0.1, 1], sources=["a b"], width=3)
    changed = _Config(width=4)
    with pytest.raises(UserError) as error:
        config_files.check_same_experiment(path, changed)
    words = "Give --fractions=0.1,1 --width=3 '--sources=a b', or give"
    assert words in str(error.value)
    _store(path)
    with pytest.raises(UserError, match="Give no --width, or give"):
        config_files.check_same_experiment(path, changed)
    _store(path, strip=False, deep=True)
    changed = _Config(strip=True, deep=False)
    with pytest.raises(UserError, match="Give --nostrip --deep, or give"):
        config_files.check_same_experiment(path, changed)


@pytest.mark.promise(
    "The configuration of another version of the package: its fields are named"
)
def test_fields_of_another_version_are_named(path):
    _store(path, free={}, fast={"rate": 0.5, "fractions": [0.25], "old": 1})
    with pytest.raises(UserError, match=r"missing \['steps'\].*\['old'\]"):
        config_files.load_config(path, _Config)
    with pytest.raises(UserError, match="another version") as error:
        config_files.check_same_experiment(path, _Config())
    assert "  steps: 'absent' stored, 10 now\n" in str(error.value)
    assert "  old: 1 stored, 'absent' now\n" in str(error.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", "3"),
        ("steps", 3.5),
        ("steps", True),
        ("rate", [1.0]),
        ("rate", False),
        ("rate", 10**400),
        ("rate", float("nan")),
        ("steps", 2**63),
        ("use_cache", 1),
        ("width", "5"),
        ("sources", "a"),
        ("sources", [1]),
        ("fractions", [0.5, "x"]),
        ("device", None),
    ],
)
def test_a_stored_value_of_another_type_is_named(path, name, value):
    _store(path, **{name: value})
    with pytest.raises(UserError, match=rf"config\.json: `{name}` must be of"):
        config_files.load_config(path, _Config)


def test_a_whole_number_may_stand_for_a_real_one(path):
    _store(path, rate=2, fractions=[1, 0], width=None)
    assert config_files.load_config(path, _Config).fast.rate == 2


@pytest.mark.parametrize("text", ["[]", "3", "x"])
def test_file_that_is_no_configuration_is_refused(path, text):
    path.write_text(text)
    with pytest.raises(UserError, match=r"config\.json must"):
        config_files.load_config(path, _Config)
