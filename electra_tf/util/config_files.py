"""Frozen dataclasses as JSON files: the stored configurations of runs.

`FREE_PARTS` of a configuration names the parts that may differ between two runs
of one experiment.
"""

import dataclasses
import json
import os
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from electra_tf.util import config_fields, files, storage
from electra_tf.util.config_fields import Config
from electra_tf.util.errors import UserError

CONFIG_FILE = "config.json"
"""Name of the file with the configuration of a run or trial."""
_ABSENT = " A field that is absent belongs to another version of electra_tf."


def save_config(path: storage.StrPath, config: object) -> None:
    """Writes a configuration as JSON: part -> field -> value."""
    files.write_json(path, dataclasses.asdict(config))


def load_config(path: storage.StrPath, config_class: type[Config]) -> Config:
    """Reads a configuration that `save_config` wrote."""
    stored = files.read_object(path)
    free = getattr(config_class, "FREE_PARTS", frozenset())
    known = {
        leaf.field.name: leaf for leaf in config_fields.leaves(config_class)
    }
    fixed = {name for name in known if known[name].section not in free}
    if other := fixed ^ _fields_outside(stored, free).keys():
        raise UserError(
            f"{os.fspath(path)} must have the fields of this version of "
            f"electra_tf. Received: missing {sorted(other & fixed)}, unknown "
            f"{sorted(other - fixed)}. Use the version that wrote it."
        )
    values = _fields_outside(stored, frozenset())
    try:
        config_fields.check_types(config_class, values)
    except UserError as error:
        raise UserError(f"{os.fspath(path)}: {error}") from error
    return config_fields.build(config_class, values)


def check_same_experiment(
    path: storage.StrPath,
    config: object,
    *,
    free_fields: Collection[str] = (),
    way_out: str = "give another --model_name",
) -> None:
    """Compares a configuration with the one that `save_config` wrote."""
    free = getattr(config, "FREE_PARTS", frozenset())
    # A round trip through JSON, as the stored values made.
    now = json.loads(json.dumps(dataclasses.asdict(config)))
    stored, now = (
        config_fields.expand_homes(_fields_outside(parts, free, free_fields))
        for parts in (files.read_object(path), now)
    )
    absent = stored.keys() ^ now.keys()
    different = {
        name: f"  {name}: {stored.get(name, 'absent')!r} stored, "
        f"{now.get(name, 'absent')!r} now"
        for name in stored | now
        if name in absent or stored[name] != now[name]
    }
    if different:
        given = [_flag(x, stored[x]) for x in different if x not in absent]
        raise UserError(
            "The configuration must be that of the run it continues, in "
            f"{os.fspath(path)}. Received:\n"
            + "\n".join(different.values())
            + f"\nGive {' '.join(given) or 'the stored values'}, or {way_out}."
            + _ABSENT * bool(absent)
        )


def _flag(name: str, value: object) -> str:
    """Returns a stored value as a word of the command line."""
    if value is None:
        return f"no --{name}"
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no{name}"
    text = ",".join(map(str, value)) if isinstance(value, list) else value
    return shlex.quote(f"--{name}={text}")


def _fields_outside(
    parts: Mapping[str, Any],
    free: frozenset[str],
    free_fields: Collection[str] = (),
) -> dict[str, Any]:
    """Returns field -> value, without free parts and other free fields."""
    values = config_fields.flatten(
        {name: parts[name] for name in parts if name not in free}
    )
    return {k: v for k, v in values.items() if k not in free_fields}
