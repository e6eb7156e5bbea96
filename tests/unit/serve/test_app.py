"""The application in this process: full queues, slow and broken models, batches, metrics."""

from __future__ import annotations

import asyncio
import threading

from served import Doubling, application


def ask(client, *values):
    rows = [[value] for value in values]
    return client.post("/v1/models/m:predict", json=rows)


def answers(response):
    assert response.status_code == 200, response.text
    return [one["predict"] for one in response.json()["predictions"]]


async def while_held(model, client, first, *others):
    """Ask first, and others while the model is busy with it."""
    model.held.clear()
    tasks = [asyncio.ensure_future(first)]
    await asyncio.sleep(0.1)
    tasks += [asyncio.ensure_future(other) for other in others]
    await asyncio.sleep(0.1)
    model.held.set()
    return await asyncio.gather(*tasks)


def test_requests_that_wait_are_computed_together():
    async def run():
        model = Doubling()
        async with application(model) as client:
            found = await while_held(
                model, client, ask(client, 1), ask(client, 2, 3), ask(client), ask(client, 4)
            )
        assert [answers(one) for one in found] == [[2], [4, 6], [], [8]]
        assert model.batches == [1, 3]

    asyncio.run(run())


def test_a_batch_is_bounded():
    async def run():
        model = Doubling()
        async with application(model, batch_rows=2) as client:
            found = await while_held(
                model,
                client,
                ask(client, 1),
                *(ask(client, i) for i in range(3)),
                ask(client, *range(5)),
            )
        assert [len(answers(one)) for one in found] == [1, 1, 1, 1, 5]
        assert model.batches == [1, 2, 1, 5]

    asyncio.run(run())


def test_a_bad_request_does_not_harm_its_batch():
    async def run():
        model = Doubling()
        async with application(model) as client:
            found = await while_held(
                model,
                client,
                ask(client, 1),
                ask(client, 2),
                ask(client, "NaN"),
                ask(client, "Infinity"),
                ask(client, 3),
            )
        assert [one.status_code for one in found] == [200, 200, 400, 500, 200]
        assert [answers(found[i]) for i in (0, 1, 4)] == [[2], [4], [6]]
        assert found[2].json() == {"error": "InputError: A row is NaN."}
        assert "secret" not in found[3].text

    asyncio.run(run())


def test_a_delay_gathers_requests():
    async def run():
        model = Doubling()
        async with application(model, batch_delay=0.2) as client:
            first = asyncio.ensure_future(ask(client, 1))
            await asyncio.sleep(0.05)
            await asyncio.gather(first, ask(client, 2))
        assert model.batches == [2]

    asyncio.run(run())


def test_quick_rows_are_computed_without_a_thread():
    async def run():
        model = Doubling()
        caller = []
        model.predict = lambda rows: caller.append(threading.current_thread()) or rows[:, 0]
        async with application(model, quick_rows=1) as client:
            await ask(client, 1)
            await ask(client, 1, 2)
        assert caller[0] is threading.current_thread()
        assert caller[1] is not threading.current_thread()

    asyncio.run(run())


def test_a_full_queue_says_when_to_come_again():
    async def run():
        model = Doubling()
        async with application(model, queued=2) as client:
            found = await while_held(model, client, *(ask(client, i) for i in range(4)))
            assert answers(await ask(client, 5)) == [10]
        assert sorted(one.status_code for one in found) == [200, 200, 503, 503]
        refused = found[-1]
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["error"].startswith("Busy: ")

    asyncio.run(run())


def test_a_slow_answer_is_given_up():
    async def run():
        model = Doubling(seconds=0.5)
        async with application(model, seconds=0.1) as client:
            found = await ask(client, 1)
            assert found.status_code == 504
            model.seconds = 0.0
            await asyncio.sleep(0.5)
            assert answers(await ask(client, 2)) == [4]

    asyncio.run(run())


def test_answers_that_are_too_large_are_not_computed():
    async def run():
        model = Doubling()
        async with application(model, answer_bytes=24) as client:
            assert answers(await ask(client, 1, 2, 3)) == [2, 4, 6]
            found = await ask(client, 1, 2, 3, 4)
        assert (found.status_code, model.batches) == (400, [3])
        assert "The answer takes up to 32 bytes" in found.text

    asyncio.run(run())


def test_metrics_count_what_happened():
    async def run():
        async with application(Doubling()) as client:
            await ask(client, 1, 2)
            await ask(client, "NaN")
            await client.post("/v1/models/other:predict", json=[])
            text = (await client.get("/metrics")).text
        assert 'hbconv_requests_total{model="m",route="predict",status="200"} 1.0' in text
        assert 'hbconv_requests_total{model="m",route="predict",status="400"} 1.0' in text
        assert 'hbconv_requests_total{model="",route="predict",status="404"} 1.0' in text
        assert 'hbconv_request_seconds_count{model="m",version="1"} 1.0' in text
        assert 'hbconv_batch_rows_sum{model="m",version="1"} 3.0' in text
        assert "hbconv_requests_running 0.0" in text
        assert "other" not in text

    asyncio.run(run())


def test_a_client_that_goes_leaves_the_batch_alone():
    async def run():
        model = Doubling()
        async with application(model) as client:
            model.held.clear()
            gone = asyncio.ensure_future(ask(client, 1))
            await asyncio.sleep(0.1)
            second = asyncio.ensure_future(ask(client, 2))
            await asyncio.sleep(0.1)
            gone.cancel()
            model.held.set()
            assert answers(await second) == [4]

    asyncio.run(run())
