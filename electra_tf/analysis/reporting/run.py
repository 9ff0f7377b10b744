"""Runs an analysis on one checkpoint, or on all that a run has kept.

    <output_dir>/report.json ...         report of the checkpoint, or the curve
    <output_dir>/checkpoint-<step>/...   report of each of several checkpoints

A report holds a fingerprint of the model, the data and the configuration, so
that an analysis of many checkpoints resumes where it was stopped.
"""

import dataclasses
import functools
import glob
import hashlib
import importlib
import importlib.metadata
import json
import math
import os
import pathlib
import platform
from collections.abc import Iterator, Mapping
from typing import Any

import electra_tf
from electra_tf.analysis.examples import annotated_text, example_files
from electra_tf.analysis.reporting import curves, reports
from electra_tf.analysis.reporting.curves import Point
from electra_tf.analysis.reporting.reports import Report
from electra_tf.checkpoint import bundles, calibration, loading
from electra_tf.config.analysis import ANALYSES, AnalysisConfig
from electra_tf.data import tables
from electra_tf.util import console, files

_PACKAGES = ("tensorflow", "keras", "numpy")
_NOT_HASHED = ("output_dir", "all_checkpoints", "batch_size")
_PATHS = ("model", "generator", "twin", "vocab_file")


def analyze(config: AnalysisConfig) -> None:
    """Analyses a model: prints the tables and, if asked to, writes them."""
    content = _metadata_of_checkpoint(config)
    _publish(_run_analysis(config), config.output_dir, content)


def analyze_all(
    config: AnalysisConfig, checkpoints: Mapping[str, Point]
) -> None:
    """Analyses checkpoints of a run, and plots the main figures over FLOPs."""
    points = [_measure(config, *one) for one in checkpoints.items()]
    report = curves.report(config.what, points)
    content = _common_metadata(config) | {"model": {"run": config.model}}
    _publish(report, config.output_dir, content)


def _run_analysis(config: AnalysisConfig) -> Report:
    module, _, name = ANALYSES[config.what].partition(":")
    return getattr(importlib.import_module(module), name)(config)


def _publish(
    report: Report, directory: str, content: Mapping[str, Any]
) -> None:
    """Prints a report and, if a directory is named, writes it."""
    console.say(reports.as_text(report))
    if directory:
        reports.write(report, directory, content)
        console.say(f"Wrote {directory}/report.json, report.md and plots\n")


def _measure(config: AnalysisConfig, path: str, point: Point) -> Point:
    """Returns a point with its figures, from its report if that exists."""
    directory = ""
    if config.output_dir:
        directory = os.path.join(config.output_dir, f"checkpoint-{point.step}")
    point_config = dataclasses.replace(config, model=path, output_dir=directory)
    content = _metadata_of_checkpoint(point_config)
    headline = _read_headline(directory, content["fingerprint"])
    if headline is not None:
        console.say(f"Step {point.step:,}: already done, see {directory}\n")
    else:
        console.say(f"Step {point.step:,}\n")
        report = _run_analysis(point_config)
        _publish(report, directory, content)
        headline = report.headline
    return point._replace(headline=headline)


def _read_headline(directory: str, expected: str) -> dict[str, float] | None:
    """Returns the main figures of a report with the expected fingerprint."""
    path = os.path.join(directory, reports.FILE_NAME)
    if not directory or not os.path.exists(path):
        return None
    stored = files.read_object(path)
    with files.naming_malformed_file(path):
        if stored["fingerprint"] != expected:
            return None
        headline = stored["headline"].items()
        return {k: math.nan if v is None else v for k, v in headline}


def _metadata_of_checkpoint(config: AnalysisConfig) -> dict[str, Any]:
    """Returns the metadata in the report of one checkpoint."""
    weights = loading.read(config.model, vocab_file=config.vocab_file)
    vocabulary = weights.vocabulary
    sizes = loading.sizes(weights).items()
    model = {
        "checkpoint": weights.origin,
        "step": weights.step,
        **{f"weights of the {name}": f"{size:,}" for name, size in sizes},
        "vocabulary": vocabulary and f"sha256 {vocabulary.sha256}",
        "temperature": _temperature(weights.origin, weights.step),
    }
    others = {
        name: str(bundles.find(path))
        if loading.format_of(path) != "hf"
        else path
        for name in ("generator", "twin")
        if (path := getattr(config, name))
    }
    resolved = dataclasses.replace(config, model=weights.origin, **others)
    metadata = _common_metadata(config)
    return {
        **metadata,
        "model": model,
        "fingerprint": fingerprint(resolved, model),
    }


def _common_metadata(config: AnalysisConfig) -> dict[str, Any]:
    """Returns the metadata in every report: configuration and versions."""
    packages = {x: importlib.metadata.version(x) for x in _PACKAGES}
    return {
        "config": dataclasses.asdict(config),
        "versions": {
            "electra_tf": electra_tf.__version__,
            "python": platform.python_version(),
            **packages,
        },
    }


def fingerprint(config: AnalysisConfig, model: Mapping[str, Any]) -> str:
    """Returns a digest of everything that the figures depend on."""
    values = dataclasses.asdict(config)
    hashed = {k: v for k, v in values.items() if k not in _NOT_HASHED}
    digest = hashlib.sha256(json.dumps([hashed, model]).encode())
    digest.update(electra_tf.__version__.encode())
    for path in _files_read(config):
        digest.update(_file_digest(path, *identity(path)))
    return digest.hexdigest()


def identity(path: str) -> tuple[int, int, int]:
    """Returns what changes when a file is written."""
    stat = os.stat(path)
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _temperature(checkpoint: str, step: int) -> float:
    """Returns the temperature that P(replaced) is computed with."""
    found = calibration.read(calibration.directory_of(checkpoint))
    return found.temperature if found and found.step == step else 1.0


def _files_read(config: AnalysisConfig) -> Iterator[str]:
    """Yields the files that an analysis reads."""
    for name in _PATHS:
        if path := getattr(config, name):
            for part in bundles.split_paths(path):
                yield from _files_of(part)
    for split in ("dev", "test") if config.dev else ("test",):
        for path in example_files.find(config, split):
            yield path
            if tables.file_ending(path) == annotated_text.CORRECTED:
                yield from annotated_text.references_of(path)


def _files_of(name: str) -> Iterator[str]:
    """Yields the files of a path: of a file, a directory or a checkpoint."""
    if os.path.isfile(name):
        yield name
    elif os.path.isdir(name):
        yield from example_files.files_below(name)
    elif os.path.isfile(f"{name}{bundles.INDEX}"):
        yield f"{name}{bundles.INDEX}"
        directory, prefix = os.path.split(name)
        pattern = f"{glob.escape(prefix)}.data-*"
        yield from sorted(map(str, pathlib.Path(directory).glob(pattern)))


@functools.lru_cache
def _file_digest(path: str, *identity: int) -> bytes:
    """Returns the digest of a file; cached while its identity is the same."""
    del identity
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
