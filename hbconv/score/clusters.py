"""Clusters that are there: each calls a function of bytes for many parts, on Ray, Spark or Dask.

A call takes several parts, which a worker runs one after another; those that it leaves when its
time is up go into later calls. A thread waits for each call. So the three differ in one call alone,
and the cluster's own rules say what happens to the calls of a lost worker: it makes them again on
another one.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hbconv.engines import travelling
from hbconv.errors import BackendError, HbconvError, InputError, MissingPackageError, OptionError
from hbconv.score.parts import run_packed

__all__ = ["ENGINES", "ComputeCluster", "open_cluster", "parse_cluster"]

CALLS_A_SLOT = 2
"""Calls that a slot has at once: one that it answers, and one that waits."""
MOST_CALLS_IN_ORDER = 64
"""Calls whose answers may wait in this process for those before them."""
MOST_PARTS_A_CALL = 64

Call = Callable[[bytes, Sequence[bytes]], bytes]


@dataclass(frozen=True)
class CallOutcome:
    """What came of a call.

    Parameters
    ----------
    returned : sequence of bytes
        What its first parts returned, each pickled.
    wrong : str or None
        What is wrong with the part behind them.
    left : sequence of bytes
        Parts that were not run.
    """

    returned: Sequence[bytes]
    wrong: str | None
    left: Sequence[bytes]

    def values(self) -> Iterator[Any]:
        """Yield what the parts returned, and raise what is wrong."""
        for value in self.returned:
            yield pickle.loads(value)  # noqa: S301 - the workers are the user's own
        if self.wrong is not None:
            raise InputError(self.wrong)


class ComputeCluster(ABC):
    """A cluster, and the work that its workers were given.

    Attributes
    ----------
    slots : int
        Calls that it answers at the same time; known when it is connected.
    """

    slots: int

    def __init__(self) -> None:
        self._asked: set[Any] = set()
        self._lock = threading.Lock()

    @abstractmethod
    def connect(self, address: str | None, work: bytes, threads: int) -> None:
        """Find the cluster; the parameters are those of ``open_cluster``."""

    @abstractmethod
    def call(self, parts: Sequence[bytes]) -> bytes:
        """Run ``travelling_call()`` on a worker, and wait for what it returns."""

    @abstractmethod
    def stop(self) -> None:
        """End the calls that run; they raise."""

    @abstractmethod
    def close(self) -> None:
        """Leave the cluster, if it is connected."""

    def start_workers(self) -> None:
        """Make a call without parts for each slot, so that workers import hbconv and load the job.

        Raises
        ------
        InputError
            A worker has no hbconv, or another one.
        """
        with self._threads(self.slots) as submit:
            for future in [submit(()) for _ in range(self.slots)]:
                deque(future.result().values(), maxlen=0)

    def as_they_end(self, parts: Sequence[bytes]) -> Generator[Any]:
        """Yield what each part returned, whichever ends first.

        Raises
        ------
        InputError
            A part cannot be answered.
        BackendError
            The cluster gave a call up.
        """
        most = CALLS_A_SLOT * self.slots
        share = _share(len(parts), most)
        left = deque(parts)
        asked: set[Future[CallOutcome]] = set()
        with self._threads(most) as submit:
            while left or asked:
                while left and len(asked) < most:
                    asked.add(submit([left.popleft() for _ in range(min(share, len(left)))]))
                ended, asked = wait(asked, return_when=FIRST_COMPLETED)
                for outcome in map(Future.result, ended):
                    yield from outcome.values()
                    left.extend(outcome.left)

    def in_order(self, parts: Iterable[bytes], count: int) -> Generator[Any]:
        """Yield what each part returned, in the order of the parts; raise as ``as_they_end``.

        Parameters
        ----------
        parts : iterable of bytes
        count : int
            How many these are, about.
        """
        most = min(CALLS_A_SLOT * self.slots, MOST_CALLS_IN_ORDER)
        share = _share(count, most)
        rest = iter(parts)
        asked: deque[Future[CallOutcome]] = deque()
        with self._threads(most) as submit:
            while True:
                while len(asked) < most and (some := list(islice(rest, share))):
                    asked.append(submit(some))
                if not asked:
                    return
                outcome = asked.popleft().result()
                yield from outcome.values()
                if outcome.left:
                    asked.appendleft(submit(outcome.left))

    @contextmanager
    def _running(self, asked: Any) -> Iterator[Any]:
        """Keep what a cluster was asked for among all that runs, until the block ends."""
        with self._lock:
            self._asked.add(asked)
        try:
            yield asked
        finally:
            with self._lock:
                self._asked.discard(asked)

    def _all_running(self) -> list[Any]:
        with self._lock:
            return list(self._asked)

    @contextmanager
    def _threads(self, count: int) -> Iterator[Callable[[Sequence[bytes]], Future[CallOutcome]]]:
        """Give what submits parts as a call; when the block ends, no call is left."""
        pool = ThreadPoolExecutor(count, "hbconv-call")
        try:
            yield lambda parts: pool.submit(self._outcome, parts)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            with suppress(Exception):  # what ended the block counts
                self.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _outcome(self, parts: Sequence[bytes]) -> CallOutcome:
        try:
            packed = self.call(parts)
        except Exception as error:
            raise BackendError(
                f"The cluster gave work up: {_reason(error)}. Its logs say more."
            ) from error
        wrong, returned = pickle.loads(packed)  # noqa: S301 - the workers are the user's own
        return CallOutcome(returned, wrong, parts[len(returned) :])


def _share(parts: int, calls: int) -> int:
    """Return how many parts a call takes: its share, as a call costs Spark 0.15 s of a processor.

    >>> _share(3, 4), _share(80, 4), _share(100_000, 4)
    (1, 20, 64)
    """
    return max(1, min(-(-parts // calls), MOST_PARTS_A_CALL))


def travelling_call() -> Call:
    """Return what a worker runs: ``run_packed``, or what is wrong with its Python."""
    run = travelling(run_packed)

    def call(work: bytes, parts: Sequence[bytes]) -> bytes:
        import pickle

        try:
            return bytes(run(work, parts))
        except ImportError as error:
            return pickle.dumps((str(error), ()))

    return call


class RayCluster(ComputeCluster):
    """Remote tasks of Ray, which runs those of a lost worker again."""

    def connect(self, address: str | None, work: bytes, threads: int) -> None:
        """Join a cluster, or start one."""
        import ray

        self._ray = ray
        ray.init(address, logging_level="ERROR", log_to_driver=False)
        cpus = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
        most = max(cpus, default=0)
        if threads > most:
            raise OptionError(
                f"--threads {threads}: no node of the cluster has more than {most:g} CPUs, so Ray "
                "would wait for ever. Give fewer."
            )
        self.slots = max(1, sum(int(count // threads) for count in cpus))
        self._work = ray.put(work)
        self._task = ray.remote(num_cpus=threads)(travelling_call())

    def call(self, parts: Sequence[bytes]) -> bytes:
        """Run a task."""
        with self._running(self._task.remote(self._work, parts)) as asked:
            return bytes(self._ray.get(asked))

    def stop(self) -> None:
        """Cancel the tasks; each removes what it has half-written."""
        for asked in self._all_running():
            self._ray.cancel(asked)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self._ray.shutdown()


class DaskCluster(ComputeCluster):
    """Futures of Dask, which computes those of a lost worker again."""

    def connect(self, address: str | None, work: bytes, threads: int) -> None:  # noqa: ARG002
        """Join a scheduler, or start one."""
        import distributed

        # Without an address it is the scheduler that Dask's configuration names, else a new one.
        make: Any = distributed.Client
        self._client = make(address) if address else make(dashboard_address=None)
        self.slots = max(1, sum(self._client.nthreads().values()))
        # Scattered data is lost with its workers; what is computed, Dask computes again.
        self._work = self._client.submit(bytes, work, pure=False)
        self._function = travelling_call()

    def call(self, parts: Sequence[bytes]) -> bytes:
        """Compute a future."""
        future = self._client.submit(self._function, self._work, parts, pure=False)
        with self._running(future) as asked:
            return bytes(asked.result())

    def stop(self) -> None:
        """Cancel the futures."""
        self._client.cancel(self._all_running())

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self._client.close()


class SparkCluster(ComputeCluster):
    """Jobs of Spark, of one task each, by its DataFrame interface, which Spark Connect has too."""

    def connect(self, address: str | None, work: bytes, threads: int) -> None:  # noqa: ARG002
        """Begin a session, of the master that the address names."""
        from pyspark.sql import SparkSession
        from pyspark.sql.functions import spark_partition_id

        builder = SparkSession.builder.appName("hbconv score")
        if address and address.startswith("sc://"):
            builder = builder.remote(address)
        elif address:
            builder = builder.master(address).config("spark.ui.showConsoleProgress", False)
        if address and address.startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        self._session = builder.getOrCreate()
        # A range has a partition for each slot. Spark Connect tells of them in no other way.
        numbered = self._session.range(1 << 12).select(spark_partition_id())
        self.slots = len(set(numbered.collect()))
        self._work = work
        self._call = travelling_call()

    def call(self, parts: Sequence[bytes]) -> bytes:
        """Run a job of one row."""
        call, work = self._call, self._work

        def answer(batches: Iterable[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for _ in batches:
                yield pa.record_batch([pa.array([call(work, parts)], pa.binary())], ["outcome"])

        one = self._session.range(0, 1, 1, 1)
        return bytes(one.mapInArrow(answer, "outcome binary").collect()[0][0])

    def stop(self) -> None:
        """Interrupt the jobs of the session."""
        self._session.interruptAll()

    def close(self) -> None:
        """End the session."""
        self._session.stop()


ENGINES: dict[str, Callable[[], ComputeCluster]] = {
    "ray": RayCluster,
    "spark": SparkCluster,
    "dask": DaskCluster,
}
"""Clusters by the name of their engine, which is also its extra."""


def parse_cluster(text: str) -> tuple[str, str | None]:
    """Return the engine and the address that an option names.

    Raises
    ------
    OptionError
        There is no such engine.

    Examples
    --------
    >>> parse_cluster("ray"), parse_cluster("spark:local[2]")
    (('ray', None), ('spark', 'local[2]'))
    >>> parse_cluster("dask:tcp://10.0.0.5:8786")
    ('dask', 'tcp://10.0.0.5:8786')
    """
    engine, _, address = text.partition(":")
    if engine not in ENGINES:
        raise OptionError(f"--on {text}: {engine!r} is no engine. Known: {', '.join(ENGINES)}.")
    return engine, address or None


@contextmanager
def open_cluster(text: str, work: bytes, threads: int) -> Iterator[ComputeCluster]:
    """Connect to the cluster that an option names, until the block ends.

    Parameters
    ----------
    text : str
        As for ``parse_cluster``.
    work : bytes
        What workers are given, together with each call.
    threads : int
        Threads that a part takes.

    Raises
    ------
    OptionError
        The cluster does not answer.
    InputError
        A worker has no hbconv, or another one.
    MissingPackageError
        The engine is not installed.
    """
    engine, address = parse_cluster(text)
    cluster = ENGINES[engine]()
    try:
        with _named_errors(text, engine):
            cluster.connect(address, work, threads)
        cluster.start_workers()
        yield cluster
    finally:
        # A connection to Ray that is left open ends this process a minute after its cluster.
        with suppress(Exception):
            cluster.close()


@contextmanager
def _named_errors(text: str, engine: str) -> Iterator[None]:
    """Say what is wrong with an option, as a cluster is connected."""
    try:
        # The engines warn of one another, and Dask of models of many megabytes.
        with warnings.catch_warnings(), _own_signals():
            warnings.simplefilter("ignore")
            yield
    except ImportError as error:
        raise MissingPackageError(
            f"--on {text} needs a package that is not installed: {error}. "
            f"Install with: pip install 'hbconv[{engine}]'"
        ) from error
    except HbconvError:
        raise
    except Exception as error:
        raise OptionError(f"--on {text}: the cluster does not answer: {_reason(error)}") from error


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep what this process does at a signal: Ray and Spark set other handlers as they start."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_RAISED = re.compile(r"^[\w.]*(?:Error|Exception)\b.*", re.MULTILINE)
"""Lines of a traceback that say what was raised."""


def _reason(error: Exception) -> str:
    """Return what an engine says in one line: the last one that was raised on its worker."""
    text = str(error)
    lines = _RAISED.findall(text) or [line for line in text.splitlines() if line.strip()]
    said = lines[-1].strip().rstrip(".") if lines else "it gives no reason"
    return f"{type(error).__name__}: {said}"[:400]
