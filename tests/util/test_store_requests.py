"""Requests to a store are retried a few times, and no more."""

import fake_store
import pytest
import tensorflow as tf

from electra_tf.util import storage, store_requests
from electra_tf.util.errors import ExitCode, explain
from electra_tf.util.store_requests import StoreError

PATH = "fake://bucket/file"
TEMPORARY = (
    tf.errors.FailedPreconditionError,
    tf.errors.UnavailableError,
    tf.errors.DeadlineExceededError,
    tf.errors.AbortedError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
)


@pytest.fixture
def waits(monkeypatch):
    """Collects the seconds between retries, without waiting."""
    seconds = []
    monkeypatch.setattr(store_requests.time, "sleep", seconds.append)
    return seconds


def failing(errors):
    """Returns a request that raises these errors in turn, then succeeds."""
    left = list(errors)

    @store_requests.request
    def fail_then_answer(path):
        if left:
            raise left.pop(0)(None, None, "not now")
        return path

    return fail_then_answer


def test_temporary_errors_are_retried_after_growing_waits(waits, caplog):
    assert failing(TEMPORARY[1:])(PATH) == PATH
    assert waits == [1, 2, 4, 8, 16]
    assert f"{PATH}: not now. Retrying in 16 s." in caplog.text


@pytest.mark.parametrize("error", TEMPORARY)
def test_the_sixth_error_is_named_with_the_path(waits, error):
    with pytest.raises(StoreError) as raised:
        failing([error] * 6)(PATH)
    code, text = explain(raised.value)
    assert code == ExitCode.BAD_INPUT
    assert f"{PATH} must be in a store that can be reached" in text
    assert "after 5 retries: not now" in text
    assert len(waits) == 5


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (tf.errors.PermissionDeniedError, StoreError),
        (tf.errors.NotFoundError, FileNotFoundError),
        (tf.errors.InvalidArgumentError, StoreError),
    ],
)
def test_permanent_errors_are_raised_at_once(waits, error, expected):
    with pytest.raises(expected, match="not now"):
        failing([error])(PATH)
    assert waits == []


def test_local_errors_are_raised_unchanged(waits):
    @store_requests.request
    def fail(path):
        raise PermissionError(13, "Permission denied", path)

    with pytest.raises(PermissionError) as raised:
        fail("x")
    assert raised.value.__cause__ is None and waits == []


def test_a_request_whose_answer_was_lost_succeeds(monkeypatch):
    store = fake_store.install(monkeypatch)
    storage.write_bytes(PATH, b"x")
    # A rename writes in three steps, the fourth is the removal.
    store.on_step = fake_store.fail_at({store.num_steps + 4})
    storage.move(PATH, f"{PATH}2")
    assert store.files == {f"{PATH}2": b"x"}
    store.on_step = fake_store.fail_at({store.num_steps + 1})
    storage.remove(f"{PATH}2")
    assert store.files == {}
    with pytest.raises(FileNotFoundError):
        storage.remove(PATH)


def test_a_read_that_fails_goes_on_where_it_was(monkeypatch):
    store = fake_store.install(monkeypatch)
    content = bytes(range(256)) * 2**13  # two pieces
    storage.write_bytes(PATH, content)
    for number in (1, 2, 3):
        store.num_reads = 0
        store.on_read = fake_store.fail_at({number})
        assert storage.read_bytes(PATH) == content


def test_an_unreachable_store_is_an_error_not_empty(monkeypatch):
    store = fake_store.install(monkeypatch)
    assert storage.find("fake://bucket", ["*"]) == []
    storage.write_bytes(PATH, b"x")
    assert storage.find("fake://bucket", ["*"]) == [PATH]
    # As gs:// without a network.
    store.exists = failing([tf.errors.FailedPreconditionError] * 99)
    store.listdir = failing([tf.errors.NotFoundError] * 99)
    with pytest.raises(StoreError, match="bucket must be in a store that can"):
        storage.find("fake://bucket", ["*"])
