"""Which examples share a row, so that little of it is padding."""

from collections.abc import Sequence

MAX_EXAMPLES = 127  # in a row: so many numbers take one byte in a record


def share(sizes: Sequence[int], max_seq_length: int) -> list[list[int]]:
    """Distributes examples over rows.

    The largest come first, and each goes to the row that it fills best, or
    where no row has room for it to a new one ("best fit decreasing").

    Args:
      sizes: tokens of each example with the special ones, at most
        `max_seq_length`.
      max_seq_length: tokens in a row.

    Returns:
      The numbers of the examples in each row, in order; and the rows in the
      order of their first examples.

    Example:
      >>> share([6, 2, 5, 3], 8)
      [[0, 1], [2, 3]]
    """
    rows: list[list[int]] = []
    rows_with: list[list[list[int]]] = [[] for _ in range(max_seq_length + 1)]
    rooms = 0  # bit n is set where a row has room for n tokens more
    for example in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        size = sizes[example]
        if enough := rooms >> size:
            room = size + (enough & -enough).bit_length() - 1  # lowest bit
            row = rows_with[room].pop()
            if not rows_with[room]:
                rooms ^= 1 << room
        else:
            room, row = max_seq_length, []
            rows.append(row)
        row.append(example)
        if len(row) < MAX_EXAMPLES:
            rows_with[room - size].append(row)
            rooms |= 1 << room - size
    return sorted(map(sorted, rows))
