"""Requests that wait together are answered together, each with its own."""

import asyncio
import threading

import pytest

from electra_tf.serving.batching import Batcher


class _Slow:
    """Answers in upper case, the first batch when it is told to."""

    def __init__(self):
        self.batches, self.go_on = [], threading.Event()

    def __call__(self, signature, items):
        self.batches.append((signature, list(items)))
        assert self.go_on.wait(10)
        if "bad" in items:
            raise ValueError("bad")
        return [item.upper() for item in items]


def _ask(requests, *, batch_size=4, cancelled=()):
    """Asks for one thing, then, while it is answered, for all others."""

    async def ask():
        slow = _Slow()
        batcher = Batcher(slow, batch_size)
        tasks = [asyncio.create_task(batcher.answer(*requests[0]))]
        while not slow.batches:
            await asyncio.sleep(0.001)
        for request in requests[1:]:
            tasks.append(asyncio.create_task(batcher.answer(*request)))
        await asyncio.sleep(0)
        for number in cancelled:
            tasks[number].cancel()
        await asyncio.sleep(0)
        slow.go_on.set()
        return await asyncio.gather(*tasks, return_exceptions=True), slow

    found, slow = asyncio.run(ask())
    return found, slow.batches


def test_one_that_finds_nothing_at_work_is_answered_alone():
    found, batches = _ask([("x", ["a"]), ("x", ["b"]), ("x", ["c", "d"])])
    assert found == [["A"], ["B"], ["C", "D"]]
    assert batches == [("x", ["a"]), ("x", ["b", "c", "d"])]


def test_a_batch_has_one_signature_and_no_more_items_than_it_may():
    requests = [
        ("x", []),
        *[("x", ["a", "b"]), ("y", ["c"]), ("x", list("defgh"))],
        *[("y", ["i"]), ("x", ["j", "k"])],
    ]
    found, batches = _ask(requests)
    assert found == [[x.upper() for x in items] for _, items in requests]
    assert batches == [
        ("x", []),
        ("x", ["a", "b", "j", "k"]),
        ("y", ["c", "i"]),
        ("x", list("defgh")),
    ]


def test_a_request_that_fails_fails_no_other():
    found, batches = _ask([("x", ["a"]), ("x", ["b"]), ("x", ["bad", "c"])])
    assert found[:2] == [["A"], ["B"]]
    assert isinstance(found[2], ValueError)
    assert len(batches) == 4
    (alone,), _ = _ask([("x", ["bad"])])
    with pytest.raises(ValueError, match="bad"):
        raise alone


def test_a_client_that_is_gone_is_passed_over():
    requests = [("x", [text]) for text in "abcd"]
    found, batches = _ask(requests, cancelled=(0, 2))
    assert isinstance(found[0], asyncio.CancelledError)
    assert isinstance(found[2], asyncio.CancelledError)
    assert [found[1], found[3]] == [["B"], ["D"]]
    assert batches == [("x", ["a"]), ("x", ["b", "d"])]
