"""How long the documents of a corpus are."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass
class Lengths:
    """The lengths of some documents, in numbers that add up.

    Attributes:
      documents: how many.
      tokens: in all of them.
      shortest: tokens of the shortest; None if there is no document.
      longest: tokens of the longest, likewise.
      histogram: smallest number of tokens -> documents that have it or more,
        but less than twice as many. The numbers are 0 and the powers of two,
        written as text, as JSON has them.
    """

    documents: int = 0
    tokens: int = 0
    shortest: int | None = None
    longest: int | None = None
    histogram: dict[str, int] = dataclasses.field(default_factory=dict)

    def count(self, num_tokens: int) -> None:
        """Adds a document."""
        lower = str(1 << num_tokens.bit_length() >> 1)
        self.add(Lengths(1, num_tokens, num_tokens, num_tokens, {lower: 1}))

    def add(self, other: "Lengths") -> None:
        """Adds other documents."""
        self.documents += other.documents
        self.tokens += other.tokens
        limits = {self.shortest, self.longest, other.shortest, other.longest}
        if limits := limits - {None}:
            self.shortest, self.longest = min(limits), max(limits)
        for lower, number in other.histogram.items():
            self.histogram[lower] = self.histogram.get(lower, 0) + number

    def summary(self) -> dict[str, Any]:
        """Returns what a manifest says of them."""
        mean = self.tokens / self.documents if self.documents else None
        return {
            "documents": self.documents,
            "mean": mean and round(mean, 1),
            "min": self.shortest,
            "max": self.longest,
            "histogram": dict(
                sorted(self.histogram.items(), key=lambda item: int(item[0]))
            ),
        }


def table(summaries: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the lengths of several splits as a table.

    Args:
      summaries: name of a split -> `Lengths.summary` of its documents.
    """
    lowers = {int(n) for each in summaries.values() for n in each["histogram"]}
    rows = [("tokens in a document", *summaries)]
    for lower in sorted(lowers):
        numbers = (
            s["histogram"].get(str(lower), 0) for s in summaries.values()
        )
        name = f"{lower:,} to {2 * lower - 1:,}" if lower > 1 else str(lower)
        rows.append((name, *(f"{number:,}" for number in numbers)))
    for name in ("mean", "min", "max"):
        values = (each[name] for each in summaries.values())
        rows.append((name, *("-" if v is None else f"{v:,}" for v in values)))
    return "\n".join(
        f"{name:<24}" + "".join(f"{cell:>14}" for cell in cells)
        for name, *cells in rows
    )
