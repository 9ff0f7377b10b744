"""What stands in JSON of unknown origin, checked as it is taken out."""

from electra_tf.finetune.readers.reading import BadRowError, Json
from electra_tf.util.errors import shown


def text(content: Json, name: str) -> str:
    """Returns a text that is not empty.

    Args:
      content: that has it.
      name: of the text in it.

    Raises:
      BadRowError: if there is none.
    """
    value = field(content, name)
    if not isinstance(value, str) or not value.strip():
        raise BadRowError(
            f"`{name}` must be a text that is not empty. Received: "
            f"{short(value)}."
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadRowError(
            f"`{name}` must be Unicode text. Received: {error}."
        ) from error
    return value


def identity(content: Json, name: str) -> str:
    """Returns what names a question: a text, or a number as one.

    Args:
      content: that has it.
      name: of it.

    Raises:
      BadRowError: if there is none.
    """
    value = field(content, name)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else text(content, name)


def items(content: Json, name: str, *, is_optional: bool = False) -> list:
    """Returns a list.

    Args:
      content: that has it.
      name: of it.
      is_optional: whether the empty list stands for one that is not there.

    Raises:
      BadRowError: if there is none.
    """
    value = field(content, name)
    if value is None and is_optional:
        return []
    if not isinstance(value, list):
        raise BadRowError(f"`{name}` must be a list. Received: {short(value)}.")
    return value


def integer(content: Json, name: str) -> int:
    """Returns a whole number.

    Args:
      content: that has it.
      name: of it.

    Raises:
      BadRowError: if there is none.
    """
    value = field(content, name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRowError(
            f"`{name}` must be a whole number. Received: {short(value)}."
        )
    return value


def flag(content: Json, name: str) -> bool:
    """Returns a truth value; false for one that is not there.

    Args:
      content: that has it.
      name: of it.

    Raises:
      BadRowError: if it is something else.
    """
    value = field(content, name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise BadRowError(
            f"`{name}` must be true or false. Received: {short(value)}."
        )
    return value


def name(content: Json) -> str:
    """Returns what names a question, if anything does."""
    if not isinstance(content, dict):
        return ""
    return str(content.get("qid") or content.get("id") or "")


def field(content: Json, name: str) -> Json:
    """Returns what a dictionary has; None for what it lacks.

    Args:
      content: that should be a dictionary.
      name: of the field.

    Raises:
      BadRowError: if it is no dictionary.
    """
    if not isinstance(content, dict):
        raise BadRowError(
            f"There must be an object that has `{name}`. Received: "
            f"{short(content)}."
        )
    return content.get(name)


def short(value: Json) -> str:
    """Writes a value, the beginning of a long one, for an error."""
    return "nothing" if value is None else shown(value)
