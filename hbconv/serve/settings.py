"""Settings of the server: one frozen value."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Where the server listens, whom it answers, and what it takes at most.

    Parameters
    ----------
    host, port : str, int
        Address to listen on. Port 0 takes a free one.
    grpc_port : int, optional
        Port of gRPC, which is not served without.
    token : str, optional
        Each request must bear it, those of health aside.
    allowed_hosts : tuple of str
        Names that clients may ask by; any where there is none.
    certificate, key : str, optional
        PEM files of TLS.
    body_bytes : int
        Size of a request, also after it is unpacked.
    answer_bytes : int
        Size of the tensors of an answer.
    rows : int
        Rows of a request.
    seconds : float
        Time for a request, from its first byte to its answer.
    batch_rows : int
        Rows that are computed together. A request of more is computed by itself.
    batch_delay : float
        Seconds that the first request of a batch waits for others.
    queued : int
        Requests that are read, wait or are computed at once. Others are refused for a second.
    workers : int
        Processes that answer.
    control : bool
        Clients may load and unload models.
    backend : str, optional
        Compile the models for it, instead of that they were saved for.
    trusted : bool
        Run the programs that the files hold.
    methods : tuple of str
        What models answer, as far as they have it; all that they have where there is none.
    log_level : {"debug", "info", "warning", "error"}
        The least level of lines of the log.
    log_format : {"text", "json"}
        What a line of the log is.
    access_log : bool
        Log each request.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = None
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    certificate: str | None = None
    key: str | None = None
    body_bytes: int = 64 << 20
    answer_bytes: int = 256 << 20
    rows: int = 100_000
    seconds: float = 30.0
    batch_rows: int = 1024
    batch_delay: float = 0.0
    queued: int = 256
    workers: int = 1
    control: bool = False
    backend: str | None = None
    trusted: bool = False
    methods: tuple[str, ...] = ()
    log_level: str = "info"
    log_format: str = "text"
    access_log: bool = True

    @property
    def held_bytes(self) -> int:
        """Bytes that all requests of a worker hold at once: bodies, rows, and answers."""
        return 8 * self.body_bytes + 2 * self.answer_bytes
