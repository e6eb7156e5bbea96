"""Batches that fail, or that nobody waits for: the model goes on."""

from __future__ import annotations

import asyncio
import gc
import weakref

import numpy as np
import pytest
from served import SIGNATURE, Doubling, served_by

from hbconv.serve import batching
from hbconv.serve.inference import Inference, Rows


def ask_model(ask, **settings):
    """Run a coroutine beside the queue of a model."""

    async def run():
        with served_by(Doubling(), **settings) as server:
            return await ask(server.service.catalog.find("m", None))

    return asyncio.run(run())


def asked(value):
    return Inference(Rows(1, (np.array([value]),)), SIGNATURE.outputs)


def test_rows_that_nobody_waits_for_are_let_go_of():
    async def ask(batcher):
        batcher.served.model.held.clear()
        try:
            first = batcher.ask(asked([1.0]), lambda outcome: None)
            await asyncio.sleep(0)
            second = asked([2.0])
            rows = weakref.ref(second.rows.arrays[0])
            waiting = batcher.ask(second, lambda outcome: None)
            waiting.cancel()
            del second
            gc.collect()
            assert rows() is None
        finally:
            batcher.served.model.held.set()
        return first

    ask_model(ask)


def test_a_model_goes_on_after_one_cancelled_its_question_too_late():
    async def ask(batcher):
        gone = asyncio.ensure_future(batcher.answer(asked([1.0])))
        await asyncio.sleep(0)
        queued = batcher._queue[0]
        gone.cancel()
        queued.then(ValueError())
        answers = await batcher.answer(asked([2.0]))
        assert answers["predict"].tolist() == [4.0]

    ask_model(ask, batch_delay=0.05)


def test_a_model_goes_on_after_a_batch_that_cannot_be_joined(monkeypatch):
    def fail(rows):
        raise MemoryError

    async def ask(batcher):
        with monkeypatch.context() as patch:
            patch.setattr(batching, "join_rows", fail)
            with pytest.raises(MemoryError):
                async with asyncio.timeout(10):
                    await batcher.answer(asked([1.0]))
        assert (await batcher.answer(asked([2.0])))["predict"].tolist() == [4.0]

    ask_model(ask)
