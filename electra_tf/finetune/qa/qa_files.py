"""Questions and contexts: tables, SQuAD's JSON, MRQA's JSON lines.

Source: the original's finetune/qa/qa_tasks.py.
"""

import bisect
import itertools
import re
from collections.abc import Iterator, Sequence

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data import tables
from electra_tf.data.tables import JSON_LINES, BadRowError, Row
from electra_tf.finetune.preprocessing import QAExample
from electra_tf.finetune.task import Source

SPACES = " \t\r\n\u202f"
"""What separates words. As in the original, other white space of Unicode is
part of a word."""

_FLAT = {"question", "context", "answers"}
_WORD = re.compile(f"[^{SPACES}]+")


class Context:
    """A text and its words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = tuple(_WORD.findall(text))
        self._starts = [match.start() for match in _WORD.finditer(text)]

    def place(self, answer: str, start: int) -> int:
        """Returns a start in characters, also if it counts UTF-16 units."""
        if self.text.startswith(answer, start):
            return start
        units = self.text.encode("utf-16-le", "surrogatepass")[: 2 * start]
        place = len(units.decode("utf-16-le", "ignore"))
        return place if self.text.startswith(answer, place) else start

    def find(self, answer: str, start: int) -> dict[str, int]:
        """Finds an answer in the words at its place: fields of a `QAExample`.

        Differs: all white space of Unicode is alike here; the original drops a
        question whose answer holds some that does not separate words.
        """
        first = self._word_at(start)
        last = self._word_at(start + len(answer) - 1)
        pattern = r"\s+".join(map(re.escape, answer.split()))
        if first < 0 or not pattern:
            return {}
        matches = re.compile(f"(?=({pattern}))", re.IGNORECASE).finditer(
            self.text,
            self._starts[first],
            self._starts[last] + len(self.words[last]),
        )
        spans = [match.span(1) for match in matches]
        if not spans:
            return {}
        begin, end = min(spans, key=lambda span: abs(span[0] - start))
        first, last = self._word_at(begin), self._word_at(end - 1)
        return {
            "first_word": first,
            "last_word": last,
            "answer_start": begin - self._starts[first],
            "answer_end": end - self._starts[last],
        }

    def _word_at(self, character: int) -> int:
        """Returns the number of the last word that begins by a character."""
        return bisect.bisect(self._starts, character) - 1


def make_example(
    eid: int,
    question: str,
    context: Context,
    *,
    qas_id: str = "",
    answers: Sequence[str] = (),
    located: Sequence[tuple[str, int]] = (),
    is_impossible: bool = False,
) -> QAExample:
    """Makes an example that learns the first of the answers with a place."""
    return QAExample(
        eid=eid,
        qas_id=qas_id or str(eid),
        question=question,
        context=context.text,
        words=context.words,
        answers=tuple(answers),
        answer_text=located[0][0] if located else "",
        is_impossible=is_impossible,
        **(context.find(*located[0]) if located else {}),
    )


def read_json(source: Source, columns: ColumnsConfig) -> Iterator[Row] | None:
    """Reads SQuAD, flat or not, or MRQA as rows of a table; None for others."""
    if source.ending not in (".json", *JSON_LINES):
        return None
    rows = list(tables.read_rows(source.path))
    fields = {*next(filter(None, rows), {})}
    if "paragraphs" in fields:
        paragraphs = [
            tables.json_row(paragraph, f"article {i}, paragraph {j}")
            for i, article in enumerate(rows, 1)
            for j, paragraph in enumerate(article.get("paragraphs", [None]), 1)
        ]
    elif {"header", "qas"} & fields:
        paragraphs = [row for row in rows if "header" not in row]
    elif columns.answer_column not in fields >= _FLAT:
        paragraphs = [Row({**x, "qas": [x]}, x.place, x.problem) for x in rows]
    else:
        return None
    return itertools.chain.from_iterable(map(_questions, paragraphs))


def _questions(paragraph: Row) -> Iterator[Row]:
    """Yields the questions of a paragraph of SQuAD or MRQA as rows."""
    where = tables.describe_place(paragraph.place)
    try:
        for number, question in enumerate(paragraph["qas"], 1):
            is_mrqa = "qid" in question
            name = question.get("qid" if is_mrqa else "id")
            answers = question.get("answers", [])
            if isinstance(answers, dict):  # of lists
                pairs = zip(*answers.values(), strict=True)
                answers = [dict(zip(answers, x, strict=True)) for x in pairs]
            located = question["detected_answers"] if is_mrqa else answers
            row = {
                "id": name,
                "question": question["question"],
                "context": paragraph["context"],
                "answer": answers if is_mrqa else [x["text"] for x in located],
                "detected_answers": [x["text"] for x in located],
                "answer_start": [
                    x["char_spans"][0][0] if is_mrqa else x["answer_start"]
                    for x in located
                ],
            }
            yield Row(row, f"{where}, question {name or number}")
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        problem = paragraph.problem or f"{error!r} in a question."
        yield Row({}, paragraph.place, problem)


def answers_of(
    row: Row, columns: ColumnsConfig
) -> tuple[tuple[str, ...], list[tuple[str, int]]]:
    """Returns the answers, and those that have a place with its character."""
    answers = row.label(columns.answer_column)
    if not isinstance(answers, tuple):
        answers = tuple(filter(None, [answers]))
    starts = row.value(columns.answer_start_column, default=None)
    if isinstance(starts, str):
        starts = starts.split()
    if starts is None or starts == []:
        context = row.text(columns.context_column)
        places = [(text, _find(text, context)) for text in answers]
        return answers, [place for place in places if place[1] >= 0]
    texts = row.get("detected_answers", answers)
    starts = starts if isinstance(starts, list) else [starts]
    if len(starts) != len(texts):
        raise BadRowError(f"{texts} begin at {starts}.")
    return answers, list(zip(texts, map(int, starts), strict=True))


def _find(answer: str, context: str) -> int:
    """Returns where an answer first stands, rather not within a word."""
    pattern = rf"(?<![^\W_]){re.escape(answer)}(?![^\W_])"
    alone = re.search(pattern, context)
    return alone.start() if alone else context.find(answer)
