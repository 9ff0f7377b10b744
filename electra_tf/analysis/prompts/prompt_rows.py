"""Turns examples and templates into rows of tokens with a label word."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from electra_tf.analysis.prompts.templates import LABEL, Prompts, Template
from electra_tf.model.text_reader import TextReader
from electra_tf.util.errors import UserError

PieceIds = list[int]
"""Ids of the word pieces of a text."""


class TemplatePart(NamedTuple):
    """A part of a filled template."""

    text: str
    is_later: bool


class PromptRow(NamedTuple):
    """A row of tokens that contains a label word."""

    ids: tuple[int, ...]
    positions: tuple[int, ...]


def make(
    reader: TextReader, prompts: Prompts, examples: Sequence[Mapping[str, str]]
) -> list[PromptRow]:
    """Makes the rows of examples (column -> text)."""
    words = prompts.label_words.values()
    pairs = list(itertools.product(examples, prompts.templates))
    filled = [
        [_fill(template, {**example, LABEL: word}) for word in words]
        for example, template in pairs
    ]
    pieces = _tokenize(
        reader, itertools.chain.from_iterable(itertools.chain(*filled))
    )
    rows: list[PromptRow] = []
    for (_, template), of_labels in zip(pairs, filled, strict=True):
        found = [[pieces[part] for part in parts] for parts in of_labels]
        _check_label_words(template, prompts, found)
        sizes = _truncate(template, found, reader.max_seq_length - 2)
        rows += [_row(reader, template, tokens, sizes) for tokens in found]
    return rows


def _fill(template: Template, texts: Mapping[str, str]) -> list[TemplatePart]:
    """Returns the parts of a template whose gaps are filled."""
    parts: list[TemplatePart] = []
    space, is_later = "", False
    for index, part in enumerate(template.parts):
        text = space + (texts[part] if index % 2 == 1 else part)
        stripped = text.rstrip()
        space = text[len(stripped) :]
        parts.append(TemplatePart(stripped, is_later))
        is_later = is_later or bool(stripped)
    return parts


def _tokenize(
    reader: TextReader, parts: Iterable[TemplatePart]
) -> dict[TemplatePart, PieceIds]:
    """Tokenizes parts, each once."""
    different = list(dict.fromkeys(parts))
    pieces = reader.tokenize_parts(
        tf.constant([part.text for part in different], tf.string),
        tf.constant([part.is_later for part in different], tf.bool),
    )
    return dict(zip(different, pieces.to_list(), strict=True))


def _check_label_words(
    template: Template, prompts: Prompts, found: Sequence[Sequence[PieceIds]]
) -> None:
    place = template.parts[1::2].index(LABEL) * 2 + 1
    for (label, word), tokens in zip(
        prompts.label_words.items(), found, strict=True
    ):
        if not tokens[place]:
            raise UserError(
                "A label word must have a token. Received: "
                f"{word!r}, of label {label}, which the tokenizer turns into "
                "no tokens."
            )


def _truncate(
    template: Template, found: Sequence[Sequence[PieceIds]], max_tokens: int
) -> dict[str, int]:
    """Returns gap -> number of its tokens to keep, so that any label word
    fits."""
    sizes: dict[str, int] = {}
    for index, name in enumerate(template.parts):
        if index % 2 == 1:  # a column can stand in a template twice
            longest = max(len(tokens[index]) for tokens in found)
            sizes[name] = max(sizes.get(name, 0), longest)
    num_fixed = sum(map(len, found[0][::2])) + sizes[LABEL]
    if num_fixed >= max_tokens:
        raise UserError(
            f"A template must leave room for a text in {max_tokens + 2} "
            f"tokens, with [CLS] and [SEP]. Received: {template.text!r}, of "
            f"{num_fixed} tokens with its label word. Shorten it, or raise "
            "--max_seq_length."
        )
    names = template.columns
    while sum(sizes[name] for name in names) > max_tokens - num_fixed:
        sizes[max(names, key=sizes.get)] -= 1
    return sizes


def _row(
    reader: TextReader,
    template: Template,
    tokens: Sequence[PieceIds],
    sizes: Mapping[str, int],
) -> PromptRow:
    """Returns the row of a template whose gaps are filled."""
    ids, positions = [reader.vocabulary.cls_id], range(0)
    for index, (part, part_ids) in enumerate(
        zip(template.parts, tokens, strict=True)
    ):
        is_gap = index % 2 == 1
        if is_gap and part == LABEL:
            positions = range(len(ids), len(ids) + len(part_ids))
        ids += part_ids[: sizes[part]] if is_gap else part_ids
    ids.append(reader.vocabulary.sep_id)
    return PromptRow(tuple(ids), tuple(positions))
