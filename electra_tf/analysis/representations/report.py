"""Tables and plots of an analysis of representations."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from electra_tf.analysis.reporting.reports import Report, Table
from electra_tf.analysis.reporting.statistics import Interval
from electra_tf.analysis.representations import layers, probe_findings
from electra_tf.analysis.representations.layers import MODEL, TWIN
from electra_tf.analysis.representations.probe_findings import ProbeFindings

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Findings:
    """The results of an analysis of representations."""

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
    """Makes the report."""
    tables = [*_similarity_tables(found), _anisotropy_table(found)]
    tables += [
        probe_findings.table(task, x) for task, x in found.probes.items()
    ]
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
    for task, task_findings in found.probes.items():
        accuracy = task_findings.accuracies[MODEL][-1].value
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
            "Linear CKA of the same layer of model and twin, 95 % interval "
            "over minibatches",
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
        *layers.columns(columns),
    )


def _neighbour_table(found: Findings) -> Table:
    rows = [
        [word, *(_format_neighbours(near) for near in by_network.values())]
        for word, by_network in found.neighbours.items()
    ]
    return Table(
        "Nearest tokens in the embedding table, by cosine",
        ["word", *found.anisotropy],
        rows,
    )


def _format_neighbours(near: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{token} {cosine:.2f}" for token, cosine in near)


def _plots(found: Findings) -> Iterator[tuple[str, Callable[["Axes"], None]]]:
    for names in found.cka:
        key = "cka_" + "_".join(dict.fromkeys(names.split(", ")))
        yield key, functools.partial(_draw_cka, found=found, names=names)
    yield "anisotropy", lambda axes: _draw_anisotropy(axes, found)
    yield from probe_findings.plots(found.probes).items()


def _draw_cka(axes: "Axes", found: Findings, names: str) -> None:
    first, second = names.split(", ")
    image = axes.imshow(found.cka[names], origin="lower", vmin=0, vmax=1)
    num_rows, num_columns = found.cka[names].shape
    axes.set(
        title="Linear CKA between layers",
        xlabel=f"{second}, {layers.LABEL}",
        ylabel=f"{first}, {layers.LABEL}",
        xticks=range(num_columns),
        yticks=range(num_rows),
    )
    axes.figure.colorbar(image, ax=axes)


def _draw_anisotropy(axes: "Axes", found: Findings) -> None:
    for name in found.anisotropy:
        layers.draw_line(axes, name, found.anisotropy[name])
        centred = f"{name}, mean-centred"
        layers.draw_line(
            axes, name, found.anisotropy_centred[name], label=centred
        )
    axes.set(title="Anisotropy by layer", ylabel="mean cosine of two words")
    axes.set_xlabel(layers.LABEL)
    axes.legend()
