"""Files, folders and headings that the documentation names exist."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "electra_tf"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], key=str
)


def test_every_file_and_folder_of_the_architecture_exists():
    named = re.findall(r"`([a-z_/]+(?:/[a-z_]+|\.py))`", ARCHITECTURE)
    assert len(named) > 20
    missing = [
        name
        for name in named
        if not (PACKAGE / name).exists() and not (ROOT / name).exists()
    ]
    assert not missing


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_and_headings_that_exist(path):
    for link in re.findall(r"\]\(([^):]+)\)", path.read_text("utf-8")):
        target, _, anchor = link.partition("#")
        document = path.parent / target if target else path
        assert document.exists(), link
        assert not anchor or anchor in _anchors(document), link


def _anchors(path):
    """Returns the anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")
        for heading in headings
    }
