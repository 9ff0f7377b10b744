"""Rows of the replication pages are results that the studies wrote."""

import itertools
import json
import math
import re

import numpy as np
import pytest
import studies

DOCS = studies.ROOT / "docs"
PAGES = [DOCS / "replication.md", *sorted(DOCS.glob("replication/*.md"))]
PROBES = {
    "chunks": "chunks",
    "chunks, last layer": "chunks_last_layer",
    "parts of speech": "parts_of_speech",
    "word swap": "word_swap",
    "word swap (exchanged words)": "word_swap",
    "agreement": "agreement",
}
STUDENT_T = {1: 12.7062, 2: 4.3027}
"""Degrees of freedom -> quantile of 97.5 %."""


def _runs():
    """Returns study -> arm -> seed -> results of the probes of a whole run."""
    found = {}
    for path in sorted((studies.ROOT / "configs/studies").glob("*.jsonl")):
        for line in map(json.loads, path.read_text("utf-8").splitlines()):
            if not line["is_trial"]:
                values = {k: v.get("1.0") for k, v in line["probes"].items()}
                arms = found.setdefault(path.stem, {})
                arms.setdefault(line["arm"], {})[line["seed"]] = values
    return found


def _arms(runs):
    """Returns all arms, and those that a second study repeats on new seeds."""
    arms = [arm for study in runs.values() for arm in study.values()]
    for first, second in itertools.combinations(runs.values(), 2):
        arms += [
            first[name] | second[name]
            for name in first.keys() & second.keys()
            if not first[name].keys() & second[name].keys()
        ]
    return arms


def _summary(values):
    """Returns the mean, and the ends of its interval if there are seeds."""
    x = np.array([v for v in values if v is not None])
    if not len(x):
        return ()
    if len(x) < 2:
        return (x.mean(),)
    half = STUDENT_T[len(x) - 1] * x.std(ddof=1) / math.sqrt(len(x))
    return x.mean(), x.mean() - half, x.mean() + half


def _minus(value, other):
    return None if None in (value, other) else value - other


def _summaries(arms):
    """Yields the results of runs, of arms and of differences paired by seed."""
    samples = [[run] for arm in arms for run in arm.values()]
    samples += [list(arm.values()) for arm in arms]
    for first, second in itertools.permutations(arms, 2):
        seeds = first.keys() & second.keys()
        if len(seeds) > 1:
            pairs = [(first[seed], second[seed]) for seed in seeds]
            samples.append(
                [{k: _minus(x[k], y.get(k)) for k in x} for x, y in pairs]
            )
    for sample in samples:
        names = set(PROBES.values())
        yield {k: _summary([x.get(k) for x in sample]) for k in names}


def _rows(page):
    """Yields the figures of a row by probe, where there are two or more."""
    head = None
    for line in page.read_text("utf-8").splitlines():
        if not line.startswith("|"):
            head = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        head = head or cells
        figures = {
            PROBES[name]: re.findall(r"-?\d+\.\d+", cell)
            for name, cell in zip(head, cells, strict=True)
            if name in PROBES
        }
        if sum(map(bool, figures.values())) > 1:
            yield line, {k: v for k, v in figures.items() if v}


def _is_printed(figures, summary):
    """Checks figures against results that were not rounded."""
    for name, texts in figures.items():
        values = summary[name][: len(texts)]
        if len(values) < len(texts):
            return False
        for text, value in zip(texts, values, strict=True):
            unit = 10.0 ** -len(text.partition(".")[2])
            if abs(float(text) - value) > 0.501 * unit:
                return False
    return True


def test_each_row_of_probes_is_a_result_of_a_study():
    summaries = list(_summaries(_arms(_runs())))
    rows = [row for page in PAGES for row in _rows(page)]
    unknown = [
        line
        for line, figures in rows
        if not any(_is_printed(figures, summary) for summary in summaries)
    ]
    assert len(rows) > 100
    assert not unknown, "\n".join(unknown)


@pytest.mark.parametrize("figure", ["0.832", "0.830"])
def test_a_figure_of_the_neighbouring_unit_is_another(figure):
    summary = {"chunks": (0.8310, 0.8240, 0.8380)}
    assert _is_printed({"chunks": ["0.831", "0.824"]}, summary)
    assert not _is_printed({"chunks": [figure]}, summary)
