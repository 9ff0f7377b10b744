"""Requests that wait while others are answered are answered together.

For accelerators, which one text leaves idle: on CPUs padding costs more than a
batch saves (docs/serving.md). No request waits for others to come: one that
finds nothing at work is answered at once, alone, and those that come meanwhile
are the next batch.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Answer = Callable[[str, list[Any]], Sequence[Any]]
"""Signature, items -> what each item is answered, in their order."""


class _Request(NamedTuple):
    """A request that waits.

    Attributes:
      signature: that answers it.
      items: of any number.
      future: receives the answers.
    """

    signature: str
    items: Sequence[Any]
    future: asyncio.Future


class Batcher:
    """Answers requests of one event loop, a batch after the other.

    Args:
      answer: answers a batch. It runs in a thread, so that the loop stays free
        to take requests.
      batch_size: items in a batch; a request of more is a batch of its own.
    """

    def __init__(self, answer: Answer, batch_size: int) -> None:
        self._answer = answer
        self._batch_size = batch_size
        self._waiting: list[_Request] = []
        self._task: asyncio.Task | None = None

    async def answer(self, signature: str, items: Sequence[Any]) -> list[Any]:
        """Returns the answers to the items of a request.

        Args:
          signature: that answers them.
          items: of the request.

        Raises:
          Exception: of `answer`, if it fails for this request alone.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(_Request(signature, items, future))
        if self._task is None:
            self._task = asyncio.create_task(self._answer_all())
        return await future

    async def _answer_all(self) -> None:
        try:
            while batch := self._next():
                await self._answer_batch(batch)
        finally:
            self._task = None

    def _next(self) -> list[_Request]:
        """Takes the requests that are answered together, the first first."""
        batch, left, size = [], [], 0
        for request in self._waiting:
            if request.future.done():  # the client is gone
                continue
            size_with_it = size + len(request.items)
            if not batch or (
                request.signature == batch[0].signature
                and size_with_it <= self._batch_size
            ):
                batch.append(request)
                size = size_with_it
            else:
                left.append(request)
        self._waiting = left
        return batch

    async def _answer_batch(self, batch: Sequence[_Request]) -> None:
        items = [item for request in batch for item in request.items]
        try:
            found = iter(
                await asyncio.to_thread(self._answer, batch[0].signature, items)
            )
        except Exception as error:
            await self._refuse(batch, error)
            return
        for request in batch:
            answers = [next(found) for _ in request.items]
            if not request.future.done():
                request.future.set_result(answers)

    async def _refuse(
        self, batch: Sequence[_Request], error: Exception
    ) -> None:
        """Fails a request, or finds which of several it was that failed."""
        if len(batch) > 1:
            for request in batch:
                await self._answer_batch([request])
        elif not batch[0].future.done():
            batch[0].future.set_exception(error)
