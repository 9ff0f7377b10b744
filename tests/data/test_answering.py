"""Answers are written as they come, and complete or not at all."""

import contextlib
import os

import pytest

from electra_tf.data import answering
from electra_tf.data.answering import InputSource, InputSpec
from electra_tf.data.tables import BadRowError
from electra_tf.util.errors import UserError


def test_the_first_row_that_is_left_out_is_named_with_its_problem(
    tmp_path, capsys
):
    def parse(text):
        if not text:
            raise BadRowError("A row must have a text.")
        return (text,)

    rows = list(enumerate(["a", "", "b", ""], start=1))
    source = InputSource("in.tsv", rows, parse)
    output = str(tmp_path / "out.jsonl")
    answering.run(_Echo().blocks, source, output, skip_bad_rows=True)
    note, summary = capsys.readouterr().err.splitlines()
    assert note == (
        "2 bad rows of in.tsv are left out. The first, line 2: A row must have "
        "a text."
    )
    assert summary.startswith("Answers: 2 in ")


def test_an_output_that_is_a_pipe_is_written_to_and_a_link_stays(tmp_path):
    source = InputSource("rows", [(1, "a")], lambda text: (text,))
    expected = '{"line": 1, "number": 0, "text": "a"}\n'
    pipe, link, target = (str(tmp_path / x) for x in ("pipe", "link", "target"))
    os.mkfifo(pipe)
    os.symlink(target, link)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for output in (pipe, link):
        answering.run(_Echo().blocks, source, output, skip_bad_rows=False)
    assert os.read(reader, 100).decode() == expected
    os.close(reader)
    assert os.path.islink(link)
    with open(target) as file:
        assert file.read() == expected


def test_an_output_never_replaces_its_input(tmp_path):
    path, link = tmp_path / "in.txt", tmp_path / "link"
    path.write_text("a\n")
    link.symlink_to(path)
    source = InputSource(str(path), [(1, "a")], lambda text: (text,))
    for output in (path, link):
        with pytest.raises(UserError):
            answering.run(
                _Echo().blocks, source, str(output), skip_bad_rows=False
            )
    assert path.read_text() == "a\n"


class _Echo(answering.Answerer):
    """Answers with a text and its number in the block."""

    input_spec = InputSpec(("text",))

    def make_example(self, number, inputs):
        return {"number": number, "text": inputs[0]}

    def answer(self, examples):
        return list(examples)


@pytest.mark.parametrize(
    ("is_live", "numbers"), [(True, [0, 0]), (False, [0, 1])]
)
def test_only_who_waits_gets_each_answer_before_the_next_row(is_live, numbers):
    taken = []
    rows = ((i, taken.append(text) or text) for i, text in enumerate("ab", 1))
    source = InputSource("rows", rows, lambda text: (text,), is_live)
    blocks = _Echo().blocks(source, lambda _: contextlib.nullcontext())
    first = next(blocks)
    assert len(taken) == len(first) == (1 if is_live else 2)
    answers = [answer for block in (first, *blocks) for _, answer in block]
    assert [answer["number"] for answer in answers] == numbers
    assert [answer["text"] for answer in answers] == ["a", "b"]
