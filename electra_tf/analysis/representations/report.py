"""Tables and plots of an analysis of representations."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from electra_tf.analysis.reporting.reports import Report, Table
from electra_tf.analysis.reporting.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODEL, TWIN = "model", "twin"

_COLOURS = {MODEL: "#1f5fa8", TWIN: "#c8553d"}
_BASELINE = "#888888"
_LAYER = "layer (0: embeddings)"


class ProbeFindings(NamedTuple):
    """How well tags are told.

    Attributes:
      num_learnt: words that probes learnt from.
      num_tested: words that accuracies are of.
      baselines: name -> accuracy without a network.
      accuracies: network -> of each layer.
      differences: of each layer, the model's accuracy less its twin's; empty
        without a twin of as many layers.
    """

    num_learnt: int
    num_tested: int
    baselines: Mapping[str, Interval]
    accuracies: Mapping[str, list[Interval]]
    differences: list[Interval]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Findings:
    """What an analysis of representations found.

    Attributes:
      num_sentences: of the test files.
      num_words: whose states were taken.
      num_left_out: words that did not fit in a row.
      cka: two networks, "model, twin" -> float64 [layers of the first, of the
        second].
      same_layer_cka: of the layers of one height; empty without a twin of as
        many layers.
      anisotropy: network -> mean cosine of each layer.
      anisotropy_centred: network -> the same of states less their mean.
      probes: task -> how well its tags are told.
      neighbours: word -> network -> the nearest tokens and their cosines.
    """

    num_sentences: int
    num_words: int
    num_left_out: int
    cka: Mapping[str, np.ndarray]
    same_layer_cka: Sequence[Interval]
    anisotropy: Mapping[str, list[Interval]]
    anisotropy_centred: Mapping[str, list[Interval]]
    probes: Mapping[str, ProbeFindings]
    neighbours: Mapping[str, Mapping[str, list[tuple[str, float]]]]


def make(found: Findings) -> Report:
    """Makes the report.

    Args:
      found: by the analysis.
    """
    tables = [*_similarity_tables(found), _anisotropy_table(found)]
    tables += [_probe_table(task, x) for task, x in found.probes.items()]
    if found.neighbours:
        tables.append(_neighbour_table(found))
    return Report(
        what="representations",
        headline=_headline(found),
        results=vars(found),
        tables=tables,
        plots=dict(_plots(found)),
    )


def _headline(found: Findings) -> dict[str, float]:
    """Returns the figures of the model's last layer."""
    figures = {"anisotropy, last layer": found.anisotropy[MODEL][-1].value}
    for task, of_task in found.probes.items():
        accuracy = of_task.accuracies[MODEL][-1].value
        figures[f"{task} accuracy, last layer"] = accuracy
    if (pair := f"{MODEL}, {TWIN}") in found.cka:
        figures["CKA with twin, last layers"] = float(found.cka[pair][-1, -1])
    return figures


def _similarity_tables(found: Findings) -> Iterator[Table]:
    for names, matrix in found.cka.items():
        first, second = names.split(", ")
        yield Table(
            f"Linear CKA, unbiased: layers of the {first} (down) and of the "
            f"{second} (across), {found.num_words:,} words",
            ["layer", *map(str, range(matrix.shape[1]))],
            [[str(i), *map(float, row)] for i, row in enumerate(matrix)],
        )
    if found.same_layer_cka:
        yield Table(
            "Linear CKA of the layers of one height, 95 % interval over "
            "minibatches",
            ["layer", "CKA", "low", "high"],
            [[str(i), *x] for i, x in enumerate(found.same_layer_cka)],
        )


def _anisotropy_table(found: Findings) -> Table:
    columns = {}
    for name, values in found.anisotropy.items():
        columns[name] = values
        columns[f"{name} centred"] = found.anisotropy_centred[name]
    return Table(
        "Anisotropy: mean cosine of words of different sentences, 95 % "
        "interval over sentences",
        *_by_layer(columns),
    )


def _by_layer(
    columns: Mapping[str, Sequence[Interval]],
) -> tuple[list[str], list[list[str | float]]]:
    """Returns a header, and a row a layer, "" where a network has none."""
    header = ["layer"]
    for name in columns:
        header += [name, "low", "high"]
    depth = max(map(len, columns.values()))
    rows: list[list[str | float]] = [[str(layer)] for layer in range(depth)]
    for values in columns.values():
        blank = [("", "", "")] * (depth - len(values))
        for row, cells in zip(rows, [*values, *blank], strict=True):
            row += cells
    return header, rows


def _probe_table(task: str, found: ProbeFindings) -> Table:
    columns = dict(found.accuracies)
    if found.differences:
        columns[f"{MODEL} less {TWIN}"] = found.differences
    header, rows = _by_layer(columns)
    blank = [""] * (len(header) - 4)
    rows += [[name, *x, *blank] for name, x in found.baselines.items()]
    return Table(
        f"Linear probes, {task}: accuracy of {found.num_tested:,} words, "
        f"learnt from {found.num_learnt:,}, 95 % interval over sentences; the "
        "last two rows are baselines without a network",
        header,
        rows,
    )


def _neighbour_table(found: Findings) -> Table:
    rows = [
        [word, *(_listed(near) for near in of_word.values())]
        for word, of_word in found.neighbours.items()
    ]
    return Table(
        "Nearest tokens in the embedding table, by cosine",
        ["word", *found.anisotropy],
        rows,
    )


def _listed(near: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{token} {cosine:.2f}" for token, cosine in near)


def _plots(found: Findings) -> Iterator[tuple[str, Callable[["Axes"], None]]]:
    for names in found.cka:
        key = "cka_" + "_".join(dict.fromkeys(names.split(", ")))
        yield key, functools.partial(_draw_cka, found=found, names=names)
    yield "anisotropy", lambda axes: _draw_anisotropy(axes, found)
    for task, of_task in found.probes.items():
        key = f"probes_{task.replace(' ', '_')}"
        yield key, functools.partial(_draw_probes, task=task, found=of_task)


def _draw_cka(axes: "Axes", found: Findings, names: str) -> None:
    first, second = names.split(", ")
    image = axes.imshow(found.cka[names], origin="lower", vmin=0, vmax=1)
    num_rows, num_columns = found.cka[names].shape
    axes.set(
        title="Linear CKA between layers",
        xlabel=f"{second}, {_LAYER}",
        ylabel=f"{first}, {_LAYER}",
        xticks=range(num_columns),
        yticks=range(num_rows),
    )
    axes.figure.colorbar(image, ax=axes)


def _draw_anisotropy(axes: "Axes", found: Findings) -> None:
    for name in found.anisotropy:
        _draw_line(axes, name, found.anisotropy[name])
        centred = f"{name}, mean-centred"
        _draw_line(axes, name, found.anisotropy_centred[name], label=centred)
    axes.set(title="Anisotropy by layer", ylabel="mean cosine of two words")
    axes.set_xlabel(_LAYER)
    axes.legend()


def _draw_probes(axes: "Axes", task: str, found: ProbeFindings) -> None:
    for name, accuracies in found.accuracies.items():
        _draw_line(axes, name, accuracies)
    styles = zip(found.baselines.items(), (":", "--"), strict=True)
    for (name, accuracy), style in styles:
        axes.axhline(
            accuracy.value, color=_BASELINE, linestyle=style, label=name
        )
    axes.set_title(f"Linear probes by layer: {task}")
    axes.set_ylabel("accuracy")
    axes.set_xlabel(_LAYER)
    axes.legend()


def _draw_line(
    axes: "Axes", name: str, values: Sequence[Interval], label: str = ""
) -> None:
    """Draws a figure by layer, with its intervals."""
    layers = range(len(values))
    axes.plot(
        layers,
        [x.value for x in values],
        color=_COLOURS[name],
        linestyle="--" if label else "-",
        marker="o",
        label=label or name,
    )
    lows, highs = [x.low for x in values], [x.high for x in values]
    axes.fill_between(layers, lows, highs, color=_COLOURS[name], alpha=0.2)
    axes.set_xticks(layers)
