"""Tables of text: for the terminal, and in Markdown."""

from collections.abc import Sequence

Rows = Sequence[Sequence[str]]
"""Cells of each row; the first row is the header."""


def aligned(rows: Rows, notes: Sequence[str] = ()) -> str:
    """Formats rows: the first column left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for number, (first, *others) in enumerate(rows):
        cells = [first.ljust(widths[0])]
        cells += [x.rjust(n) for x, n in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([*cells, *notes[number : number + 1]]))
    return "".join(f"{line.rstrip()}\n" for line in lines)


def markdown(rows: Rows) -> str:
    """Formats rows as a Markdown table, aligned as by `aligned`."""
    header, *others = [[x.replace("|", r"\|") for x in row] for row in rows]
    rule = ["---"] + ["---:"] * (len(header) - 1)
    lines = (f"| {' | '.join(row)} |\n" for row in (header, rule, *others))
    return "".join(lines)
