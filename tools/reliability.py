"""Runs the tests of reliability promises, and writes a table of the results.

    python tools/reliability.py

A test shows a promise if it has the marker `promise`, with a sentence that
begins with the fault: "kill -9 in a checkpoint: the next run ends with the same
weights". All such tests run, slow ones and those of faults included, and the
table in docs/reliability.md is rewritten: fault, promise, test, result, and the
seconds from the fault to the message, if the test records "seconds_to_message".
The rest of the page is written by hand.

If a promise is broken, the command writes the page, then fails. This module is
also the pytest plugin that adds the sentences to pytest's report.
"""

import dataclasses
import datetime
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

from electra_tf.util import config_flags
from electra_tf.util.errors import UserError

_ROOT = pathlib.Path(__file__).resolve().parents[1]
for _directory in ("benchmarks", "replication"):  # machine, tables
    sys.path.append(str(_ROOT / "tools" / _directory))

MARKER = "promise"
_TABLE = "promises"
_SECONDS = "seconds_to_message"
_FAILED, _PASSED, _NOT_RUN = "**failed**", "passed", "not run"
_COMPLETED_CODES = {0, 1}  # exit codes of pytest: all passed, some failed


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReliabilityConfig:
    """Which tests to run, and where to write the table."""

    tests: str = str(_ROOT / "tests")
    """Directory of tests, or a test file."""

    page: str = str(_ROOT / "docs" / "reliability.md")
    """Document to write the table to, between the marks `<!-- promises -->` and
    `<!-- end promises -->`."""

    select: str = MARKER
    """Which tests to run: a marker expression, as for pytest's -m."""


class Outcome(NamedTuple):
    """The outcome of a test, or of one of its cases."""

    promise: str
    file: str
    name: str
    result: str
    seconds: float | None


def pytest_configure(config: Any) -> None:  # noqa: ANN401 (pytest's)
    """Registers the marker, for tests outside this repository."""
    config.addinivalue_line("markers", f"{MARKER}(sentence): a promise")


def pytest_collection_modifyitems(items: Iterable[Any]) -> None:
    """Adds the sentence of each test to the report."""
    for item in items:
        if marker := item.get_closest_marker(MARKER):
            item.user_properties.append((MARKER, marker.args[0]))


def main(config: ReliabilityConfig) -> None:
    """Runs the tests and writes the table."""
    import tables

    page = pathlib.Path(config.page)
    if page.read_text("utf-8").count(f"<!-- {_TABLE} -->") != 1:
        raise UserError(
            f"`page` must have the mark <!-- {_TABLE} --> once. Received: "
            f"{page}."
        )
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "results.xml")
        _run(config, path)
        outcomes = read(path)
    text = "\n".join([_describe(outcomes), "", table(outcomes)])
    tables.publish(_TABLE, text, page)
    broken = sorted({x.name for x in outcomes if x.result == _FAILED})
    if broken:
        raise UserError(
            f"Every promise must be kept. Received: {', '.join(broken)} "
            "failed; see pytest's output above."
        )


def _run(config: ReliabilityConfig, path: pathlib.Path) -> None:
    """Runs pytest in a process of its own, with this module as a plugin."""
    here = str(pathlib.Path(__file__).parent)
    paths = [here, str(_ROOT), os.environ.get("PYTHONPATH", "")]
    code = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-m", config.select),
            *("-p", pathlib.Path(__file__).stem, f"--junitxml={path}"),
            *("-o", "junit_family=xunit1"),  # which names the files
            config.tests,
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        check=False,
    ).returncode
    if code not in _COMPLETED_CODES:
        raise UserError(
            f"`tests` must have tests that -m '{config.select}' selects and "
            f"pytest can run. Received: {config.tests}, with which pytest "
            f"ended with exit code {code}; see its output above."
        )


def read(path: pathlib.Path) -> list[Outcome]:
    """Reads the outcomes of the tests of promises from pytest's report."""
    outcomes = []
    for case in ElementTree.parse(path).iter("testcase"):
        properties = {
            x.get("name"): x.get("value") for x in case.iter("property")
        }
        if MARKER in properties:
            seconds = properties.get(_SECONDS)
            outcomes.append(
                Outcome(
                    properties[MARKER],
                    case.get("file"),
                    case.get("name").partition("[")[0],
                    _result(case),
                    None if seconds is None else float(seconds),
                )
            )
    return outcomes


def _result(case: ElementTree.Element) -> str:
    """Returns the result of a case; failed if its setup or teardown fails."""
    if case.find("failure") is not None or case.find("error") is not None:
        return _FAILED
    skipped = case.find("skipped")
    if skipped is None:
        return _PASSED
    return f"{_NOT_RUN}: {skipped.get('message')}"


def table(outcomes: Sequence[Outcome]) -> str:
    """Returns a table with a row for each promise and test, sorted by fault."""
    import tables

    rows = {}
    for outcome in sorted(outcomes, key=lambda x: x.promise.casefold()):
        rows.setdefault(outcome[:3], []).append(outcome)
    cells = []
    for (promise, file, name), cases in rows.items():
        fault, colon, promised = promise.partition(": ")
        seconds = [x.seconds for x in cases if x.seconds is not None]
        cells.append(
            (
                fault[0].upper() + fault[1:] if colon else "",
                promised if colon else promise,
                f"`{file}::{name}`",
                _summary(cases),
                _format_range(seconds),
            )
        )
    head = ("fault", "promise", "test", "result", "seconds to the message")
    return tables.table(head, cells)


def _summary(cases: Sequence[Outcome]) -> str:
    """Returns the worst result of a test's cases, and how many have it."""
    worst = min(x.result for x in cases)  # failed, not run, passed
    count = sum(x.result == worst for x in cases)
    if len(cases) == 1:
        return worst
    return f"{worst}, {count} of {len(cases)} cases"


def _format_range(seconds: Sequence[float]) -> str:
    if not seconds:
        return ""
    ends = dict.fromkeys(f"{x:.1f}" for x in (min(seconds), max(seconds)))
    return " to ".join(ends)


def _describe(outcomes: Sequence[Outcome]) -> str:
    """Describes when and where the tests ran, and counts their results."""
    import machine

    found = machine.describe()
    results = [x.result for x in outcomes]
    versions = machine.versions("tensorflow", "keras")
    libraries = ", ".join(f"{k} {v}" for k, v in versions.items())
    return (
        f"{datetime.date.today().isoformat()}, {found['cores']} cores of "
        f"{found['cpu']} ({', '.join(found['instructions'])}), "
        f"Python {found['python']}, "
        f"{libraries}: {len({x.promise for x in outcomes})} promises, "
        f"{len(results)} cases, {results.count(_PASSED)} passed, "
        f"{results.count(_FAILED)} failed, "
        f"{sum(x.startswith(_NOT_RUN) for x in results)} not run."
    )


if __name__ == "__main__":
    config_flags.run(main, ReliabilityConfig)
