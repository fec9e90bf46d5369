"""Sends one request within a time that holds for all of it."""

import asyncio
import threading
from dataclasses import dataclass

import httpx

from ._answer import NotYet

_LARGEST_ANSWER = 1 << 20


@dataclass(frozen=True)
class Request:
    """What every attempt of one operation sends."""

    method: str
    url: str
    headers: dict[str, str]
    content: bytes | None = None


@dataclass(frozen=True)
class Response:
    """What came back; whether it is the server's is not known yet."""

    status: int
    headers: httpx.Headers
    content: bytes


class Http:
    """httpx limits each read, not all of them together: a server that sends a byte now and then would be waited for without end.

    Asynchronous code can be stopped wherever it waits; so it is sent from an event loop, in a thread of its own.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="reservation-client", daemon=True)
        self._thread.start()

    def send(self, request: Request, seconds: float) -> Response:
        """Raises `NotYet` where there is no complete answer in time."""
        if not self._thread.is_alive():
            raise RuntimeError("this client is closed, or was made before a fork: make one in each process")
        sending = asyncio.run_coroutine_threadsafe(self._send(request, seconds), self._loop)
        try:
            return sending.result()
        except TimeoutError as error:
            raise NotYet("no complete answer in time") from error
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError):
            raise  # a mistake on this side: it would fail every time
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise NotYet(f"no answer: {type(error).__name__}") from error
        finally:
            sending.cancel()

    async def _send(self, request: Request, seconds: float) -> Response:
        async with (
            asyncio.timeout(seconds),
            # Redirects would send the body elsewhere, or turn the POST into a GET.
            self._client.stream(
                request.method,
                request.url,
                headers=request.headers,
                content=request.content,
                timeout=None,
                follow_redirects=False,
            ) as response,
        ):
            content = bytearray()
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > _LARGEST_ANSWER:
                    raise NotYet("the answer is too large")
            return Response(response.status_code, response.headers, bytes(content))

    def close(self) -> None:
        if not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
