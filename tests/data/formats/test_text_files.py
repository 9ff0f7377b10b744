"""Every format gives the same documents; what is bad is named or counted."""

import gzip
import io
import json
import lzma
import os
import sys
import tarfile
import zipfile

import pyarrow
import pyarrow.parquet
import pytest
from corpora import COMPRESS, read, write

from electra_tf.data.formats import rows
from electra_tf.util.errors import UserError

TEXTS = ["Grüße\naus\n\n\nWien\n", "字\r\n😀", "\n  last \n"]
DOCUMENTS = [["Grüße", "aus", "Wien"], ["字", "😀"], ["last"]]


def json_text(texts, field="text"):
    rows = [json.dumps({"id": i, field: t}) for i, t in enumerate(texts)]
    return ("\n".join(rows) + "\n").encode()


def tar(members):
    """Packs (name or TarInfo, bytes) pairs."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members:
            info = name
            if isinstance(name, str):
                info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def text_members(texts=TEXTS):
    return [(f"d/{i}.txt", text.encode()) for i, text in enumerate(texts)]


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


def test_archives_nested_too_deep_are_left_out(tmp_path):
    content = tar(text_members())
    for _ in range(4):
        content = tar([("inner.tar", content), ("ok.txt", b"ok")])
    documents, statistics = read(write(tmp_path / "a.tar", content))
    assert documents == [["ok"]] * 3
    assert statistics.skipped_members == 1


def test_unsafe_and_strange_members_are_left_out_and_counted(tmp_path):
    members = [
        (name, b"harm")
        for name in ("/etc/x.txt", "../x.txt", "a/../../x.txt", "a/._x.txt")
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
    assert statistics.skipped_members == 8
    assert [p.name for p in tmp_path.iterdir()] == ["a.tar"]


def test_members_that_are_too_large_are_left_out_and_counted(tmp_path):
    members = [
        ("large.txt", b"x" * 101),
        ("bomb.txt.xz", lzma.compress(b"x" * 2**24)),
        ("fits.txt", b"y" * 100),
    ]
    path = write(tmp_path / "a.tar", tar(members))
    documents, statistics = read(path, max_member_bytes=100)
    assert documents == [["y" * 100]]
    assert statistics.oversized_members == 2


def test_a_truncated_archive_is_named(tmp_path):
    path = write(tmp_path / "a.tar", tar(text_members([10_000 * "x"]))[:8000])
    with pytest.raises(UserError, match=r"a\.tar: unexpected end of data"):
        read(path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"text": "cut', "A row must be JSON"),
        (b'{"body": "x"}', "A row must have 'text'. Received: 'body'"),
        (b'{"text": null}', "'text' must be a text. Received: None"),
    ],
)
def test_a_bad_line_is_named_or_counted(tmp_path, line, problem):
    rows = json_text(TEXTS).splitlines()
    path = write(tmp_path / "a.jsonl", b"\n\n".join([*rows, line, rows[0]]))
    with pytest.raises(UserError, match=rf"a\.jsonl, line 7: {problem}"):
        read(path)
    documents, statistics = read(path, skip_bad_lines=True)
    assert documents == DOCUMENTS + DOCUMENTS[:1]
    assert statistics.bad_json_lines == 1


def test_a_bad_line_in_an_archive_names_its_member(tmp_path):
    path = write(tmp_path / "a.tar", tar([("b/c.jsonl", b"{}\n")]))
    with pytest.raises(UserError, match=r"a\.tar, line 1: of b/c\.jsonl"):
        read(path)


def test_a_line_that_is_too_long_is_bad(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "MAX_JSON_BYTES", 200)
    path = write(tmp_path / "a.jsonl", json_text(["x" * 500, "ok"]))
    documents, statistics = read(path, skip_bad_lines=True)
    assert documents == [["ok"]]
    assert statistics.bad_json_lines == 1


def test_escapes_that_are_no_text_are_replaced_or_left_out(tmp_path):
    rows = [{"text": f"{'good ' * 9}\ud800"}, {"text": "a\0b\ngood"}]
    lines = "\n".join(map(json.dumps, rows)).encode()
    documents, statistics = read(write(tmp_path / "a.jsonl", lines))
    assert documents == [["good " * 9 + "\ufffd" * 3], ["good"]]
    assert statistics.replaced_bytes == 3
    assert statistics.binary_lines == 1


def test_zstandard_without_pyarrow_names_the_way_out(tmp_path, monkeypatch):
    path = write(tmp_path / "a.zst", b"text", ".zst")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match="pip install pyarrow"):
        read(path)


def test_a_corpus_of_bad_parts_says_what_they_were(tmp_path):
    write(tmp_path / "a.jsonl", b"{}\n{}")
    write(tmp_path / "b.tar", tar([("../x", b"x")]))
    with pytest.raises(UserError, match=r"2 line.*bad JSON, 1 .*unsafe"):
        read(tmp_path, skip_bad_lines=True)


@pytest.mark.parametrize("name", ["a.json", "a.txt", "a", "a.json.gz"])
@pytest.mark.parametrize("begin", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_json_lines_are_known_by_their_first_line(tmp_path, name, begin):
    compressed = ".gz" if name.endswith(".gz") else ""
    content = begin + json_text(TEXTS)
    documents, statistics = read(write(tmp_path / name, content, compressed))
    assert documents == DOCUMENTS
    assert statistics.text_bytes == sum(len(t.encode()) for t in TEXTS)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["a.json", "a.txt", "a.json.xz"])
def test_a_json_document_names_the_way_to_json_lines(tmp_path, name, indent):
    rows = [{"text": text} for text in TEXTS]
    compressed = ".xz" if name.endswith(".xz") else ""
    content = json.dumps(rows, indent=indent).encode()
    path = write(tmp_path / name, content, compressed)
    with pytest.raises(UserError, match=rf"{name}, which is one JSON .*jq -c"):
        read(path)


@pytest.mark.parametrize(
    "text", ["[1] a footnote", "{{Infobox}}", "{", '["Hello," he said]', "{}"]
)
def test_text_that_begins_with_a_bracket_is_text(tmp_path, text):
    path = write(tmp_path / "a.txt", f"{text}\nand more".encode())
    assert read(path)[0] == [[text, "and more"]]


@pytest.mark.parametrize("compressed", COMPRESS)
def test_compression_is_known_without_its_ending(tmp_path, compressed):
    path = write(tmp_path / "a", json_text(TEXTS), compressed)
    assert read(path)[0] == DOCUMENTS
    path = write(tmp_path / "b", tar([("a.json", path.read_bytes())]))
    assert read(path)[0] == DOCUMENTS


def parquet(columns):
    buffer = io.BytesIO()
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(table, buffer, row_group_size=2)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["a.parquet", "train-00000-of-00001"])
def test_a_row_of_parquet_is_a_document(tmp_path, name):
    columns = {"id": [1, 2, 3], "body": TEXTS}
    path = write(tmp_path / name, parquet(columns))
    documents, statistics = read(path, text_field="body")
    assert documents == DOCUMENTS
    assert statistics.text_bytes == sum(len(t.encode()) for t in TEXTS)


def test_a_parquet_file_without_the_text_is_named(tmp_path):
    path = write(tmp_path / "a.parquet", parquet({"id": [1], "body": ["x"]}))
    with pytest.raises(
        UserError, match=r"a\.parquet, line 1: .* column 'text'. Received: 'id'"
    ):
        read(path)
    with pytest.raises(UserError, match="'id' must hold texts.*int64"):
        read(path, text_field="id")
    rows = write(tmp_path / "b.parquet", parquet({"text": ["x", None, "y"]}))
    with pytest.raises(UserError, match=r"b\.parquet, line 2: 'text' must"):
        read(rows)
    documents, statistics = read(rows, skip_bad_lines=True)
    assert documents == [["x"], ["y"]] and statistics.bad_json_lines == 1


def test_damaged_and_packed_parquet_is_named(tmp_path):
    content = parquet({"text": TEXTS})
    path = write(tmp_path / "a.parquet", content[:-20])
    with pytest.raises(UserError, match=r"a\.parquet"):
        read(path)
    path = write(tmp_path / "b.parquet.gz", content, ".gz")
    with pytest.raises(UserError, match=r"b\.parquet\.gz, .*Unpack it"):
        read(path)


def zip_archive():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "text")
    return buffer.getvalue()


FOREIGN = {
    "a ZIP archive": zip_archive(),
    "a PDF document": b"%PDF-1.7\n%\xe2\xe3\n",
    "UTF-16 text": "text\n".encode("utf-16"),
    "UTF-32 text": "text\n".encode("utf-32"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_what_is_no_text_is_named_with_the_way_out(tmp_path, what):
    path = write(tmp_path / "a.txt", FOREIGN[what])
    with pytest.raises(
        UserError, match=rf"a\.txt, which is {what}. (Unpack|Extract|Convert)"
    ):
        read(path)
    members = [("b.txt", FOREIGN[what]), *text_members()]
    path = write(tmp_path / "a.tar", tar(members))
    documents, statistics = read(path)
    assert documents == DOCUMENTS and statistics.skipped_members == 1


ENGLISH = "A line of good text.\n\n" * 50
FRENCH = "Élève, où étais-tu passé ?\n\n"


@pytest.mark.parametrize("compressed", ["", ".gz"])
@pytest.mark.parametrize(
    ("text", "encoding", "likely"),
    [
        (ENGLISH, "utf-16-le", "UTF-16LE"),
        (ENGLISH, "utf-16-be", "UTF-16BE"),
        ("Съешь же ещё этих булок\n" * 9, "utf-16-le", "UTF-16LE"),
        ("一年之计在于春。\n" * 9, "utf-16-be", "UTF-16BE"),
        (ENGLISH + FRENCH * 13, "latin-1", "ISO-8859-1"),
        ("Съешь же ещё этих булок\n" * 9, "cp1251", "GB18030"),
    ],
)
def test_another_encoding_is_told_by_many_bad_lines(
    tmp_path, compressed, text, encoding, likely
):
    name = f"a.txt{compressed}"
    path = write(tmp_path / name, text.encode(encoding), compressed)
    with pytest.raises(UserError, match=rf"a\.txt.*iconv -f {likely} -t"):
        read(path)


def test_another_encoding_is_told_of_the_files_in_an_archive(tmp_path):
    members = [(f"{i}.txt", FRENCH.encode("latin-1")) for i in range(9)]
    path = write(tmp_path / "a.tar", tar(members))
    with pytest.raises(
        UserError, match=r"a\.tar, of which 9 of 9 .*ISO-8859-1"
    ):
        read(path)
    members += [(f"{i}.txt", b"good") for i in range(9, 50)]
    documents, _ = read(write(tmp_path / "b.tar", tar(members)))
    assert documents[-41:] == [["good"]] * 41


def test_some_bad_lines_are_repaired_or_left_out(tmp_path):
    content = ENGLISH.encode() + (FRENCH * 12).encode("latin-1")
    documents, statistics = read(write(tmp_path / "a.txt", content))
    assert statistics.documents + statistics.binary_lines == 62
    assert len(documents) >= 50


def test_bytes_that_are_no_text_are_said_to_be_none(tmp_path):
    path = write(tmp_path / "a.bin", bytes(range(256)) * 100)
    with pytest.raises(UserError, match="likely it is no text. Leave it out"):
        read(path)


def test_a_long_file_of_another_encoding_is_told_early(tmp_path):
    path = write(tmp_path / "a.txt", "\xe9 \xe9\n".encode("latin-1") * 50_000)
    with pytest.raises(UserError, match="10,000 of 10,000 lines"):
        read(path)


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
