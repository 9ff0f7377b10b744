"""Texts in blocks, which are in memory at once and sorted by length."""

from collections.abc import Iterable, Iterator

from electra_tf.util.errors import UserError, shown

MAX_TEXTS = 512
MAX_CHARACTERS = 2**18
"""Size of a block, unless its last text is longer."""


def blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Groups texts into blocks of a limited size.

    Raises:
      UserError: telling the number of a text, from 1, that is none.
    """
    block: list[str] = []
    num_characters = 0
    for number, text in enumerate(texts, start=1):
        _check_text(number, text)
        block.append(text)
        num_characters += len(text)
        is_full = num_characters >= MAX_CHARACTERS
        if is_full or len(block) == MAX_TEXTS:
            yield block
            block, num_characters = [], 0
    if block:
        yield block


def _check_text(number: int, text: str) -> None:
    problem = shown(text)
    try:
        text.encode()
    except AttributeError:
        pass
    except UnicodeEncodeError as error:
        problem = str(error)
    else:
        return
    raise UserError(
        f"Text {number} must be a string of whole characters. Received: "
        f"{problem}."
    )
