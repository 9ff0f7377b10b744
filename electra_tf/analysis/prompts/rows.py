"""Turns examples and templates into rows of tokens with a label word."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from electra_tf.analysis.prompts.templates import LABEL, Prompts, Template
from electra_tf.model.text_reader import TextReader
from electra_tf.util.errors import UserError

Pieces = Mapping[str, list[int]]
"""Text -> ids of its word pieces."""


class PromptRow(NamedTuple):
    """A row of tokens that contains a label word.

    Attributes:
      ids: [CLS], the tokens of the filled template, [SEP].
      positions: indices of the tokens of the label word.
    """

    ids: tuple[int, ...]
    positions: tuple[int, ...]


def make(
    reader: TextReader, prompts: Prompts, examples: Sequence[Mapping[str, str]]
) -> list[PromptRow]:
    """Makes the rows of examples.

    Each part of a template, each column and each label word is tokenized
    separately. If a row is too long, its longest column is cut at the end, by
    the same amount for all labels.

    Args:
      reader: of the network.
      prompts: templates and label words.
      examples: column -> text.

    Returns:
      A row for each example, template and label; the label varies fastest, the
      example slowest.

    Raises:
      UserError: if a template leaves no room for a text, or if a label word has
        no tokens.
    """
    texts = _texts(prompts, examples)
    pieces = dict(zip(texts, reader.tokenize(texts).to_list(), strict=True))
    for label, word in prompts.label_words.items():
        if not pieces[word]:
            raise UserError(
                "A label word must have a token. Received: "
                f"{word!r}, of label {label}, which the tokenizer turns into "
                "no tokens."
            )
    max_tokens = reader.max_seq_length - 2
    rows: list[PromptRow] = []
    for example, template in itertools.product(examples, prompts.templates):
        column_tokens = _truncate(
            template, prompts, example, pieces=pieces, max_tokens=max_tokens
        )
        for word in prompts.label_words.values():
            filled = {**column_tokens, LABEL: pieces[word]}
            rows.append(_row(reader, template, filled, pieces))
    return rows


def _texts(
    prompts: Prompts, examples: Iterable[Mapping[str, str]]
) -> list[str]:
    """Lists all texts to tokenize, each once."""
    literals = (part for x in prompts.templates for part in x.parts[::2])
    columns = (x[name] for x in examples for name in prompts.columns)
    words = prompts.label_words.values()
    return list(dict.fromkeys(itertools.chain(literals, words, columns)))


def _truncate(
    template: Template,
    prompts: Prompts,
    example: Mapping[str, str],
    *,
    pieces: Pieces,
    max_tokens: int,
) -> dict[str, list[int]]:
    """Returns the tokens of each column, cut so that any label word fits."""
    num_fixed = sum(len(pieces[part]) for part in template.parts[::2])
    num_fixed += max(len(pieces[x]) for x in prompts.label_words.values())
    if num_fixed >= max_tokens:
        raise UserError(
            f"A template must leave room for a text in {max_tokens + 2} "
            f"tokens, with [CLS] and [SEP]. Received: {template.text!r}, of "
            f"{num_fixed} tokens with its label word. Shorten it, or raise "
            "--max_seq_length."
        )
    names = template.columns
    sizes = {name: len(pieces[example[name]]) for name in names}
    # A column can stand in a template twice.
    while sum(sizes[name] for name in names) > max_tokens - num_fixed:
        sizes[max(sizes, key=sizes.get)] -= 1
    return {name: pieces[example[name]][: sizes[name]] for name in sizes}


def _row(
    reader: TextReader,
    template: Template,
    filled: Mapping[str, list[int]],
    pieces: Pieces,
) -> PromptRow:
    """Returns the row of a template whose gaps are filled."""
    ids, positions = [reader.vocabulary.cls_id], range(0)
    for index, part in enumerate(template.parts):
        is_gap = index % 2 == 1
        tokens = filled[part] if is_gap else pieces[part]
        if is_gap and part == LABEL:
            positions = range(len(ids), len(ids) + len(tokens))
        ids += tokens
    ids.append(reader.vocabulary.sep_id)
    return PromptRow(tuple(ids), tuple(positions))
