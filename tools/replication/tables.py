"""Markdown tables of measured numbers, printed or put into a document."""

import pathlib
import re
from collections.abc import Sequence

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/parity.md"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table with aligned columns."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "| "
        + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True))
        + " |"
        for line in (head, rule, *rows)
    )


def publish(name: str, text: str, path: pathlib.Path = DOCUMENT) -> None:
    """Puts text between the marks `<!-- name -->` and `<!-- end name -->`."""
    marks = f"<!-- {name} -->", f"<!-- end {name} -->"
    pattern = re.compile(rf"{marks[0]}\n.*?{marks[1]}", re.DOTALL)
    text = re.sub(r"(?<=\S)  +| +(?= )", " ", re.sub(r"-{4,}", "---", text))
    document, count = pattern.subn(
        lambda _: f"{marks[0]}\n{text}\n{marks[1]}",
        path.read_text("utf-8"),
    )
    if count != 1:
        raise ValueError(f"{path} must have the mark {marks[0]} once.")
    path.write_text(document, "utf-8")
