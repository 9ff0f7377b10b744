"""The report of an analysis: JSON that holds all, tables, plots."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Table(NamedTuple):
    """A table of a report.

    Attributes:
      title: a sentence.
      header: of the columns.
      rows: texts, or numbers that are shown with three digits.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | float]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What an analysis found.

    Attributes:
      what: name of the analysis.
      headline: its main figures, which `--all_checkpoints` draws over FLOPs.
      results: all that tables and plots show, as JSON.
      tables: in the order of reading.
      plots: name of a file without its ending -> draws on an empty plot.
    """

    what: str
    headline: Mapping[str, float]
    results: Mapping[str, Any]
    tables: Sequence[Table]
    plots: Mapping[str, Callable[["Axes"], None]] = dataclasses.field(
        default_factory=dict
    )
