"""Answers are written as they come, and complete or not at all."""

import sys

from electra_tf.data import answering
from electra_tf.data.formats.inputs import InputSource


def test_answers_outlive_the_reader_of_the_progress(tmp_path, monkeypatch):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

    def answer(source, at):
        return iter([[(1, {"label": "a"})], [(2, {"label": "b"})]])

    monkeypatch.setattr(sys, "stderr", Closed())
    monkeypatch.setattr(answering.console, "SECONDS_BETWEEN_LOGS", 0)
    output = tmp_path / "out.jsonl"
    source = InputSource("rows", [], str)
    answering.run(answer, source, str(output), skip_bad_rows=False)
    assert output.read_text() == (
        '{"line": 1, "label": "a"}\n{"line": 2, "label": "b"}\n'
    )


def test_progress_differs_from_the_summary(tmp_path, monkeypatch, capsys):
    def answer(source, at):
        return iter([[(1, {"label": "a"})]])

    monkeypatch.setattr(answering.console, "SECONDS_BETWEEN_LOGS", 0)
    source = InputSource("rows", [], str)
    output = str(tmp_path / "out.jsonl")
    answering.run(answer, source, output, skip_bad_rows=False)
    progress, summary = capsys.readouterr().err.splitlines()
    assert progress.startswith("Answers so far: 1 in ")
    assert summary.startswith("Answers: 1 in ")
