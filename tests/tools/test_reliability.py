"""The reliability page: the tests it runs, and its table of results."""

import ast
import pathlib
import re
import subprocess

import markdown_tables
import pytest
import reliability

from electra_tf.util.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]
THREE_TESTS = """
import pytest

@pytest.mark.promise("kill -9: the next run goes on")
@pytest.mark.parametrize("seconds", [1.26, 3.04])
def test_kept(seconds, record_property):
    record_property("seconds_to_message", seconds)

@pytest.mark.promise("disk full: the message names the path")
def test_broken():
    assert False

@pytest.mark.promise("no network: nothing is fetched")
def test_elsewhere():
    pytest.skip("there is one")

def test_of_no_promise():
    assert False
"""
PAGE = "by hand\n<!-- promises -->\nold\n<!-- end promises -->\nby hand, too\n"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The page after three tests of which one fails, and the error message."""
    directory = tmp_path_factory.mktemp("synthetic")
    (directory / "pytest.ini").write_text("[pytest]\n")  # names begin here
    (directory / "test_three.py").write_text(THREE_TESTS)
    (directory / "page.md").write_text(PAGE)
    config = reliability.ReliabilityConfig(
        tests=str(directory), page=str(directory / "page.md")
    )
    with pytest.raises(UserError) as error:
        reliability.main(config)
    return (directory / "page.md").read_text(), str(error.value)


def test_each_promise_has_a_row_ordered_by_its_fault(written):
    def test(name):
        return f"`test_three.py::test_{name}`"

    assert markdown_tables.cells(written[0]) == [
        [
            "Disk full",
            "the message names the path",
            test("broken"),
            "**failed**",
            "",
        ],
        [
            "Kill -9",
            "the next run goes on",
            test("kept"),
            "passed, 2 of 2 cases",
            "1.3 to 3.0",
        ],
        [
            "No network",
            "nothing is fetched",
            test("elsewhere"),
            "not run: there is one",
            "",
        ],
    ]


def test_a_promise_that_is_not_kept_fails_the_command(written):
    assert re.search(r"Received: test_broken failed", written[1])


def test_what_is_written_by_hand_stays_and_the_counts_are_told(written):
    page = written[0]
    assert page.startswith("by hand\n<!-- promises -->\n")
    assert page.endswith("<!-- end promises -->\nby hand, too\n")
    assert "old" not in page
    assert "3 promises, 4 cases, 2 passed, 1 failed, 1 not run." in page


def test_one_failed_case_is_the_result_of_its_test():
    cases = [
        reliability.Outcome("fault: kept", "a.py", "test", result, None)
        for result in ("passed", "**failed**", "not run: no", "passed")
    ]
    assert "| **failed**, 1 of 4 cases |" in reliability.table(cases)


def test_a_page_without_marks_is_refused_before_the_tests_run(
    tmp_path, monkeypatch
):
    (tmp_path / "page.md").write_text("by hand\n")
    monkeypatch.setattr(subprocess, "run", None)
    config = reliability.ReliabilityConfig(page=str(tmp_path / "page.md"))
    with pytest.raises(UserError, match=r"`page` must have the mark"):
        reliability.main(config)


def test_tests_that_cannot_run_write_nothing(tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text(PAGE)
    config = reliability.ReliabilityConfig(
        tests=str(tmp_path), page=str(tmp_path / "page.md")
    )
    none_found = subprocess.CompletedProcess([], 5)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: none_found)
    with pytest.raises(UserError, match="exit code 5"):
        reliability.main(config)
    assert (tmp_path / "page.md").read_text() == PAGE


def test_the_page_has_the_promises_of_today():
    expected = reliability.table([*_promises()])
    page = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    published = page.partition("<!-- end promises -->")[0]
    rows = {tuple(row[:3]) for row in markdown_tables.cells(published)}
    assert rows == {tuple(row[:3]) for row in markdown_tables.cells(expected)}


def _promises():
    """Yields an outcome for each test with the marker, read from its source."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for mark in getattr(node, "decorator_list", []):
                if ast.unparse(mark).startswith("pytest.mark.promise("):
                    yield reliability.Outcome(
                        ast.literal_eval(mark.args[0]),
                        path.relative_to(ROOT).as_posix(),
                        node.name,
                        "passed",
                        None,
                    )
