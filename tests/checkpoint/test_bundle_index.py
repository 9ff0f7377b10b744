"""An index that would make TensorFlow abort the process is never opened."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import tensor_bundle_pb2

from electra_tf.checkpoint import bundle_index, bundles
from electra_tf.util.errors import UserError

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)
HEADER = b"\x08\x01\x1a\x02\x08\x01"  # one file of data, version 1


_TABLE = range(256)
for _ in range(8):  # to the CRC-32C (Castagnoli) of each byte
    _TABLE = [(crc >> 1) ^ (0x82F63B78 * (crc & 1)) for crc in _TABLE]


def _with_checksum(data):
    """Returns bytes followed by their masked CRC-32C."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return data + masked.to_bytes(4, "little")


def varint(number):
    low, high = number & 127, number >> 7
    return bytes([low | 128]) + varint(high) if high else bytes([low])


def block(entries, compression=0):
    """Returns a block with its trailer; names share no prefixes."""
    rows = [
        b"\0" + varint(len(name)) + varint(len(value)) + name + value
        for name, value in entries
    ]
    restarts = np.array([0, 1], "<u4").tobytes()
    return _with_checksum(b"".join(rows) + restarts + bytes([compression]))


def index(entries, size=None, **options):
    """Returns an index; `size` is the stated size of its first block."""
    data, unused = block([(b"", HEADER), *entries], **options), block([])
    offset_and_size = varint(0) + varint(size or len(data) - 5)
    offsets = block([(b"z", offset_and_size)])
    footer = b"".join(
        map(
            varint,
            (len(data), len(unused) - 5, len(data + unused), len(offsets) - 5),
        )
    )
    magic = bytes.fromhex("57fb808b247547db")
    return data + unused + offsets + footer.ljust(40, b"\0") + magic


def entry(shape=(2, 3), unknown_rank=False, **fields):
    shape = {"dim": [{"size": size} for size in shape]}
    shape |= {"unknown_rank": unknown_rank}
    values = {"dtype": 1, "size": 24, "shape": shape, **fields}
    return tensor_bundle_pb2.BundleEntryProto(**values).SerializeToString()


@pytest.fixture
def prefix(tmp_path):
    bundles.write(tmp_path / "x", {"a": ARRAY})
    reader = tf.train.load_checkpoint(str(tmp_path / "x"))
    assert reader.get_variable_to_dtype_map() == {"a": tf.float32}
    return tmp_path / "x"


def write(prefix, content):
    prefix.with_name("x.index").write_bytes(content)


def crc_of(prefix):
    content = prefix.with_name("x.index").read_bytes()
    ((_, stored),) = [*bundle_index._entries(content)][1:]
    return tensor_bundle_pb2.BundleEntryProto.FromString(stored).crc32c


def test_an_index_built_by_this_test_is_readable(prefix):
    write(prefix, index([(b"a", entry(crc32c=crc_of(prefix)))]))
    np.testing.assert_array_equal(bundles.read(prefix)["a"], ARRAY)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes(100),
        index([(b"a", b"no entry")]),
        index([(b"a", entry((2**60,)))]),
        index([(b"a", entry((2**62, 0)))]),
        index([(b"a", entry((0, 2**62, 2**62)))]),
        index([(b"a", entry((-1,)))]),
        index([(b"a", entry((1,) * 255))]),
        index([(b"a", entry(shape=(), dtype=0))]),
        index([(b"a", entry(dtype=7))]),  # strings
        index([(b"a", entry(dtype=101))]),
        index([(b"a", entry(dtype=9999))]),
        index([(b"a", entry(slices=[{"extent": [{"start": -9}]}]))]),
        index([(b"a", entry((), unknown_rank=True))]),
        index([(b"a", entry())], compression=1),
        index([(b"a", entry())], size=2**60),
        index([(b"a", entry())], size=25),
        index([(b"a", entry())])[:-48] + b"\xff" * 40 + index([])[-8:],
    ],
)
def test_an_index_that_would_abort_the_process_is_refused(prefix, content):
    write(prefix, content)
    with pytest.raises(ValueError):  # not left to TensorFlow
        bundle_index.check(f"{prefix}.index", num_bytes=24)
    with pytest.raises(UserError, match="x must be a checkpoint that can be"):
        bundles.read(prefix)
    assert bundles.find_damage(prefix)
