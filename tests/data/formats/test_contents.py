"""Text files are opened whatever their compression; others are refused."""

import pytest

from electra_tf.data.formats import contents
from electra_tf.util.errors import UserError


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.txt", b"PK\x03\x04", "a.txt must be text.*ZIP"),
        ("a.txt.gz", b"\x1f\x8b\x08", "a.txt.gz must be a file that can be"),
    ],
)
def test_binary_and_truncated_files_are_refused(
    tmp_path, name, content, problem
):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=problem):
        with contents.opened(str(path)) as lines:
            list(lines)
