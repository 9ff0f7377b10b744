"""Every format gives the same documents; bad content is named or counted."""

import gzip
import io
import json
import lzma
import os
import re
import sys
import tarfile
import zipfile

import pyarrow
import pyarrow.parquet
import pytest
from corpora import COMPRESS, read, tar, write

from electra_tf.data.formats import rows
from electra_tf.util.errors import UserError

TEXTS = ["Grüße\naus\n\n\nWien\n", "字\r\n😀", "\n  last \n"]
DOCUMENTS = [["Grüße", "aus", "Wien"], ["字", "😀"], ["last"]]


def json_text(texts, field="text"):
    rows = [json.dumps({"id": i, field: t}) for i, t in enumerate(texts)]
    return ("\n".join(rows) + "\n").encode()


def text_members(texts=TEXTS):
    return [(f"d/{i}.txt", text.encode()) for i, text in enumerate(texts)]


def parquet(columns):
    buffer = io.BytesIO()
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(table, buffer, row_group_size=2)
    return buffer.getvalue()


def not_utf8():
    """Returns two texts, of which Arrow does not check the first."""
    binary = pyarrow.array([b"a\xffb", b"cde"])
    return pyarrow.StringArray.from_buffers(2, *binary.buffers()[1:])


def zip_archive():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "text")
    return buffer.getvalue()


def with_bad_line(line):
    """Returns JSON lines with blank lines between; line 7 is bad."""
    lines = json_text(TEXTS).splitlines()
    return b"\n\n".join([*lines, line, lines[0], b""])


def nested(depth):
    content = tar(text_members())
    for _ in range(depth):
        content = tar([("inner.tar", content), ("ok.txt", b"ok")])
    return content


@pytest.mark.parametrize("blanks", [True, False])
@pytest.mark.parametrize("compressed", ["", *COMPRESS])
def test_an_object_or_an_archived_file_is_a_document(
    tmp_path, compressed, blanks
):
    rows, members = json_text(TEXTS, "body"), tar(text_members())
    for name, content in (("a.jsonl", rows), ("a.tar", members)):
        path = write(tmp_path / f"{name}{compressed}", content, compressed)
        documents, statistics = read(
            path, blanks_separate_docs=blanks, text_field="body"
        )
        assert documents == DOCUMENTS
        assert statistics.documents == 3
        assert statistics.text_bytes == sum(len(t.encode()) for t in TEXTS)


@pytest.mark.parametrize(
    ("ending", "compressed"),
    [
        ("_data.xz", ".xz"),
        (".tgz", ".gz"),
        (".txz", ".xz"),
        (".tbz2", ".bz2"),
        (".TZST", ".zst"),
    ],
)
def test_archives_are_known_without_their_ending(tmp_path, ending, compressed):
    path = write(tmp_path / f"a{ending}", tar(text_members()), compressed)
    assert read(path)[0] == DOCUMENTS


@pytest.mark.parametrize("compressed", COMPRESS)
@pytest.mark.parametrize("name", ["a.jsonl", "a.txt"])
def test_a_damaged_file_is_named(tmp_path, name, compressed):
    path = tmp_path / f"{name}{compressed}"
    content = COMPRESS[compressed](json_text([os.urandom(3000).hex()]))
    flipped = bytearray(content)
    flipped[len(flipped) // 2] ^= 0xFF
    has_checksum = compressed != ".zst"
    for damaged in (content[:-9], b"plain text", *[flipped] * has_checksum):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=name):
            read(path)


def test_an_archive_of_compressed_archives_is_read_as_openwebtext_is(tmp_path):
    inner = [
        (f"openwebtext/{i}_data.xz", lzma.compress(tar([member])))
        for i, member in enumerate(text_members())
    ]
    inner.append(("more.jsonl.gz", gzip.compress(json_text(TEXTS[:1]))))
    path = write(tmp_path / "openwebtext.tar.xz", tar(inner), ".xz")
    assert read(path)[0] == DOCUMENTS + DOCUMENTS[:1]


def header(kind, size, content=b""):
    """Returns an archive header and the `size` bytes that it announces."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT) + content.ljust(-(-size // 512) * 512)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (header(tarfile.XHDTYPE, 2**15 + 1), "a header of 32,769 bytes"),
        (
            header(tarfile.GNUTYPE_LONGNAME, 3) * 2000,
            "a bad header at byte 0: .*recurs",
        ),
        (header(tarfile.XHDTYPE, 5004, b"9" * 5000 + b" a=b"), "a bad header"),
    ],
)
def test_oversized_and_malformed_archive_headers_are_errors(
    tmp_path, content, problem
):
    path = write(tmp_path / "a.tar", content)
    with pytest.raises(UserError, match=rf"a\.tar: {problem}"):
        read(path)


@pytest.mark.parametrize(
    "damage", [lambda x: x[:1024] + b"?" + x[1025:], lambda x: x[:1200]]
)
def test_a_damaged_archive_header_is_an_error(tmp_path, damage):
    """tarfile alone would end there and ignore the files after it."""
    content = tar([(name, b"text") for name in ("a.txt", "b.txt", "c.txt")])
    path = write(tmp_path / "a.tar", damage(content))
    with pytest.raises(UserError, match=r"a\.tar: a bad header at byte 1,024"):
        read(path)


def test_an_archive_without_end_blocks_is_read(tmp_path):
    content = tar([("a.txt", b"text")])[:1024]
    assert read(write(tmp_path / "a.tar", content))[0] == [["text"]]


def test_archives_that_were_joined_are_read_to_the_end(tmp_path):
    parts = [tar([(name, name.encode())]) for name in ("a.txt", "b.txt")]
    path = write(tmp_path / "a.tar", b"".join(parts))
    assert read(path)[0] == [["a.txt"], ["b.txt"]]
    path = write(tmp_path / "b.tar", parts[0] + b"something else" * 99)
    with pytest.raises(UserError, match=r"b\.tar: a bad header at byte"):
        read(path)


def test_the_headers_of_an_archive_do_not_stay_in_memory(tmp_path, monkeypatch):
    archives, open_archive = [], tarfile.open

    def opening(**kwargs):
        archives.append(open_archive(**kwargs))
        return archives[-1]

    path = write(tmp_path / "a.tar", tar(text_members() * 9))
    monkeypatch.setattr(tarfile, "open", opening)
    assert read(path)[0] == DOCUMENTS * 9
    assert not archives[0].members


def test_unsafe_and_strange_members_are_left_out_and_counted(tmp_path):
    members = [
        (name, b"harm")
        for name in (
            *("/etc/x.txt", "../x.txt", "a/../../x.txt", "a/._x.txt"),
            *("\\x.txt", "a\\..\\x.txt"),
        )
    ]
    for kind in (
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.CHRTYPE,
        tarfile.FIFOTYPE,
    ):
        info = tarfile.TarInfo(f"x{kind}")
        info.type, info.linkname = kind, "/etc/passwd"
        members.append((info, b""))
    directory = tarfile.TarInfo("d")
    directory.type = tarfile.DIRTYPE
    members.append((directory, b""))
    path = write(tmp_path / "a.tar", tar(members + text_members()))
    documents, statistics = read(path)
    assert documents == DOCUMENTS
    assert statistics.skipped_members == 10
    assert [p.name for p in tmp_path.iterdir()] == ["a.tar"]


ENGLISH = "A line of good text.\n\n" * 50
FRENCH = "Élève, où étais-tu passé ?\n\n"
RUSSIAN = "Съешь же ещё этих булок\n" * 9
CHINESE = "一年之计在于春。\n" * 9
FOREIGN = {
    "a ZIP archive. Unpack": zip_archive(),
    "a PDF document. Extract": b"%PDF-1.7\n%\xe2\xe3\n",
    "UTF-16 text. Convert": "text\n".encode("utf-16"),
    "UTF-32 text. Convert": "text\n".encode("utf-32"),
}
JSON_DOCUMENTS = [
    json.dumps([{"text": text} for text in TEXTS], indent=indent).encode()
    for indent in (None, 2)
]
PARQUET = parquet({"text": TEXTS})
LATIN_1 = [(f"{i}.txt", FRENCH.encode("latin-1")) for i in range(9)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        *[
            ("a.txt", FOREIGN[description], f"which is {description}")
            for description in FOREIGN
        ],
        *[
            (name, content, "which is one JSON .*jq -c")
            for name in ("a.json", "a.txt", "a.json.xz")
            for content in JSON_DOCUMENTS
        ],
        *[
            (name, text.encode(encoding), f"iconv -f {likely} -t")
            for name in ("a.txt", "a.txt.gz")
            for text, encoding, likely in (
                (ENGLISH, "utf-16-le", "UTF-16LE"),
                (ENGLISH, "utf-16-be", "UTF-16BE"),
                (RUSSIAN, "utf-16-le", "UTF-16LE"),
                (CHINESE, "utf-16-be", "UTF-16BE"),
                (ENGLISH + FRENCH * 13, "latin-1", "ISO-8859-1"),
                (RUSSIAN, "cp1251", "GB18030"),
            )
        ],
        ("a.txt", b"\xe9 \xe9\n" * 50_000, ", of which 10,000 of 10,000 lines"),
        ("a.bin", bytes(range(256)) * 100, "it is probably binary. Leave it"),
        ("a.tar", tar(LATIN_1), ", of which 9 of 9 .*ISO-8859-1"),
        ("a.tar", tar(text_members(["x" * 10**4]))[:8000], ": unexpected end"),
        ("a.tar", tar([("b/c.jsonl", b"{}\n")]), ", line 1: of b/c.jsonl"),
        *[
            ("a.jsonl", with_bad_line(line), f", line 7: {problem}.* Correct")
            for line, problem in (
                (b'{"text": "', "A row must be JSON"),
                (b'{"text": "\xe9"}', "A row must be UTF-8"),
                (b"[]", "A row must be a JSON object"),
            )
        ],
        (
            "a.jsonl",
            with_bad_line(b'{"b": 1}'),
            ", line 7: .*'text'.*d: 'b'. Set --text_field",
        ),
        *[
            (name, b'\n\n{"text": "a"}\n{"b": 1}\n', ", line 4: .*'text'")
            for name in ("a.jsonl", "a.json", "a", "a.json.gz")
        ],
        ("a.jsonl", with_bad_line(b'{"text": 1}'), ", line 7: 'text' must be"),
        ("a", parquet({"id": [1], "b": ["x"]}), ", columns: .*'text'.*: 'id'"),
        ("a", parquet({"text": [1]}), ", columns: .*'text' must hold .*int64"),
        ("a", parquet({"text": ["x", None]}), ", row 2: 'text' must be a"),
        ("a", parquet({"text": not_utf8()}), ", row 1: .*UTF-8 .* Correct it"),
        ("a.parquet", PARQUET[:-20], ": .*. Restore the file"),
        ("a.parquet.gz", PARQUET, "which is parquet .*Unpack it"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, content, message):
    compressed = os.path.splitext(name)[1]
    path = write(tmp_path / name, content, compressed)
    with pytest.raises(UserError, match=rf"{re.escape(name)}.*{message}"):
        read(path)


@pytest.mark.parametrize(
    ("name", "content", "documents", "counts"),
    [
        (
            "foreign.tar",
            tar([*FOREIGN.items(), *text_members()]),
            DOCUMENTS,
            {"skipped_members": 4},
        ),
        (
            "a.jsonl",
            with_bad_line(b"{}") + json_text(["x" * 5000, "ok"]),
            [*DOCUMENTS, DOCUMENTS[0], ["ok"]],
            {"bad_json_lines": 2},
        ),
        (
            "escapes.jsonl",
            json_text([f"{'good ' * 9}\ud800", "a\0b\ngood"]),
            [["good " * 9 + "\ufffd" * 3], ["good"]],
            {"replaced_bytes": 3, "binary_lines": 1},
        ),
        (
            "a.parquet",
            parquet({"text": ["x", None, "y"]}),
            [["x"], ["y"]],
            {"bad_json_lines": 1},
        ),
        (
            "latin.parquet",
            parquet({"text": not_utf8()}),
            [["cde"]],
            {"bad_json_lines": 1},
        ),
        ("deep.tar", nested(4), [["ok"]] * 3, {"skipped_members": 1}),
        (
            "large.tar",
            tar(
                [
                    ("large.txt", b"x" * 1001),
                    ("bomb.txt.xz", lzma.compress(b"x" * 2**24)),
                    ("fits.txt", b"y" * 1000),
                ]
            ),
            [["y" * 1000]],
            {"oversized_members": 2},
        ),
        (
            "latin.tar",
            tar(LATIN_1 + [(f"{i}.txt", b"good") for i in range(9, 50)]),
            [["good"]] * 41,
            {"binary_lines": 9},
        ),
    ],
)
def test_bad_content_is_left_out_and_counted(
    tmp_path, monkeypatch, name, content, documents, counts
):
    monkeypatch.setattr(rows, "MAX_JSON_BYTES", 4000)
    found, statistics = read(
        write(tmp_path / name, content),
        skip_bad_lines=True,
        max_member_bytes=1000,
    )
    assert found == documents
    assert {k: getattr(statistics, k) for k in counts} == counts


def test_some_bad_lines_are_repaired_or_left_out(tmp_path):
    content = ENGLISH.encode() + (FRENCH * 12).encode("latin-1")
    documents, statistics = read(write(tmp_path / "a.txt", content))
    assert statistics.documents + statistics.binary_lines == 62
    assert len(documents) >= 50


@pytest.mark.parametrize("ending", [".zst", ".parquet"])
def test_missing_pyarrow_names_the_command_that_installs_it(
    tmp_path, monkeypatch, ending
):
    content = PARQUET if ending == ".parquet" else b"text"
    path = write(tmp_path / f"a{ending}", content, ending)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match="pip install pyarrow"):
        read(path)


def test_the_error_of_a_corpus_of_bad_parts_counts_them(tmp_path):
    write(tmp_path / "a.jsonl", b"{}\n{}")
    write(tmp_path / "b.tar", tar([("../x", b"x")]))
    with pytest.raises(UserError, match=r"out: 2 line.*bad JSON, 1 .*text\.$"):
        read(tmp_path, skip_bad_lines=True)


@pytest.mark.parametrize("name", ["a.json", "a.txt", "a", "a.json.gz"])
@pytest.mark.parametrize("begin", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_json_lines_are_known_by_their_first_line(tmp_path, name, begin):
    compressed = ".gz" if name.endswith(".gz") else ""
    content = begin + json_text(TEXTS)
    documents, statistics = read(write(tmp_path / name, content, compressed))
    assert documents == DOCUMENTS
    assert statistics.text_bytes == sum(len(t.encode()) for t in TEXTS)


@pytest.mark.parametrize(
    "text",
    [
        "[1] a footnote",
        "{{Infobox}}",
        "{",
        '["Hello," he said]',
        "{}",
        "BZh9 is no bzip2",
    ],
)
def test_text_that_begins_as_another_format_does_is_text(tmp_path, text):
    path = write(tmp_path / "a.txt", f"{text}\nand more".encode())
    assert read(path)[0] == [[text, "and more"]]


@pytest.mark.parametrize("compressed", COMPRESS)
def test_compression_is_known_without_its_ending(tmp_path, compressed):
    path = write(tmp_path / "a", json_text(TEXTS), compressed)
    assert read(path)[0] == DOCUMENTS
    path = write(tmp_path / "b", tar([("a.json", path.read_bytes())]))
    assert read(path)[0] == DOCUMENTS


@pytest.mark.parametrize("name", ["a.parquet", "train-00000-of-00001"])
@pytest.mark.parametrize("kind", ["string", "large_string", "string_view"])
def test_a_row_of_parquet_is_a_document(tmp_path, name, kind):
    texts = pyarrow.array(TEXTS, getattr(pyarrow, kind)())
    columns = {"id": [1, 2, 3], "body": texts}
    path = write(tmp_path / name, parquet(columns))
    documents, statistics = read(path, text_field="body")
    assert documents == DOCUMENTS
    assert statistics.text_bytes == sum(len(t.encode()) for t in TEXTS)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz"])
def test_a_byte_order_mark_is_no_text(tmp_path, name):
    text = json_text(TEXTS) if "json" in name else b"Wien\n"
    plain, marked = (tmp_path / d / name for d in ("plain", "marked"))
    compressed = ".gz" if name.endswith(".gz") else ""
    for path, begin in ((plain, b""), (marked, b"\xef\xbb\xbf")):
        path.parent.mkdir()
        write(path, begin + text, compressed)
    assert read(plain) == read(marked)
    both = tar([("a", b"\xef\xbb\xbfWien")])
    assert read(write(tmp_path / "a.tar", both))[0] == [["Wien"]]
