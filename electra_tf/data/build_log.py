"""The log of a build: its progress, and the counts of the result."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from electra_tf.data.corpus import LEFT_OUT, Statistics
from electra_tf.util import console, tables

MAX_RATIO = 2  # between the held-out share of records and its target
MAX_UNKNOWN_SHARE = 0.05  # of the training tokens

_RECORDS = (
    "{records:,} records of {lengths} tokens, {padding_share:.1%} padding\n"
    "  {held_out_records:,} of them held out; {tokens_kept:,} tokens kept, "
    "{tokens_dropped:,} dropped"
)

Log = Callable[[str], None]


class ProgressLog:
    """Logs the progress of a build from time to time, and its result."""

    def __init__(self, log: Log) -> None:
        self._start = time.monotonic()
        self._log = log
        self._log_sometimes = console.Periodic(log)
        self.begin_text(Statistics(), 0, is_search=False)

    def log_records(self, number: int, total: int) -> None:
        """Logs how many records of a data set are written."""
        self._log_sometimes(lambda: f"Writing: {number:,} of {total:,} records")

    def begin_text(
        self, before: Statistics, total_bytes: int, *, is_search: bool
    ) -> None:
        """Begins a pass over the text."""
        self._before = before
        self._total_bytes = total_bytes
        self._is_search = is_search
        self._text_start = time.monotonic()

    def log_text(self, num_documents: int, num_bytes: int) -> None:
        """Logs how much text has been read since `begin_text`."""
        if num_bytes:
            self._log_sometimes(lambda: self._text(num_documents, num_bytes))
        else:  # processes take seconds to start, which do not count
            self._text_start = time.monotonic()

    def _text(self, num_documents: int, num_bytes: int) -> str:
        before = self._before
        text = "Looking for duplicates: " if self._is_search else ""
        text += f"{before.documents + num_documents:,} documents, "
        text += console.format_speed(num_bytes, self._text_start)
        if before.text_bytes:
            text += (
                f", after {before.text_bytes / 1e6:.1f} MB by an earlier build"
            )
        left = self._total_bytes - before.text_bytes - num_bytes
        if left > 0:
            seconds = left / num_bytes * (time.monotonic() - self._text_start)
            text += f", about {_duration(seconds)} left"
        return text

    def log_result(self, manifests: Sequence[dict[str, Any]]) -> None:
        """Logs the records that were made and what was left out, with
        warnings."""
        longest = manifests[-1]
        self._log(self._total_line(longest["counts"]["text_bytes"]))
        self._log(_summary(manifests))
        _check_held_out(longest)
        _check_unknown(longest["counts"])

    def _total_line(self, num_bytes: int) -> str:
        """Returns a line on all text, including what a stopped build read."""
        before = self._before.text_bytes
        rate = console.format_speed(num_bytes - before, self._start)
        if not before:
            return f"Built from {rate}:"
        return (
            f"Built from {num_bytes / 1e6:.1f} MB: {before / 1e6:.1f} MB by an "
            f"earlier build that was stopped, and now {rate}:"
        )


def _check_held_out(manifest: Mapping[str, Any]) -> None:
    """Warns if the share of records held out is far from the target."""
    target, counts = manifest["held_out_fraction"], manifest["counts"]
    share = counts["held_out_records"] / counts["records"]
    if target and not target / MAX_RATIO <= share <= target * MAX_RATIO:
        console.warn(
            f"{share:.2%} of the records are held out where held_out_fraction="
            f"{target} asks for {target:.2%}: documents stay whole, and there "
            f"are {counts['documents']:,}."
        )


def _check_unknown(counts: Mapping[str, int]) -> None:
    """Warns if many training tokens are [UNK]."""
    share = _unknown_share(counts)
    if share > MAX_UNKNOWN_SHARE:
        console.warn(
            f"{share:.1%} of the training tokens are [UNK]. Is the vocabulary "
            "of another text, letter case or script? Delete it and these "
            "records to make both again, or name another --vocab_file; if it "
            "lacks characters of this text, learn one with a larger "
            "--vocab_size."
        )


def _summary(manifests: Sequence[dict[str, Any]]) -> str:
    """Returns a report on the records of a corpus and on what was left out."""
    text = "\n".join(map(_records_made, manifests))
    manifest = manifests[-1]
    counts = manifest["counts"]
    text += f"\n{counts['documents']:,} documents, {counts['tokens_read']:,} "
    text += f"tokens; held out: {counts['held_out_documents']:,} documents"
    if share := _unknown_share(counts):
        text += f"\n[UNK]: {share:.3%} of the training tokens"
    if counts["cut_documents"]:
        text += f"\ncut: {counts['cut_documents']:,} times, in documents that "
        text += "are too long"
        if counts["held_out_documents"]:
            text += "; some pieces of a\n  document may be held out while the "
            text += "others are trained on"
    for name, what in LEFT_OUT.items():
        if counts[name]:
            text += f"\nleft out: {counts[name]:,} {what}"
    return f"{text}\n{length_table(manifest['document_tokens'])}"


def length_table(summaries: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the lengths of the documents of splits as a table."""
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
    return tables.aligned(rows).rstrip()


def _records_made(manifest: dict[str, Any]) -> str:
    rows = [*manifest["length_buckets"], manifest["max_seq_length"]]
    return _RECORDS.format(
        lengths="/".join(map(str, rows)), **manifest["counts"]
    )


def _unknown_share(counts: Mapping[str, int]) -> float:
    return counts["unknown_train_tokens"] / counts["train_tokens"]


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"
