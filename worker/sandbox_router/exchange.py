"""One request of a client, carried to a stream of a guest, and its answer, carried back.

h11 reads and frames both sides, so nothing but one message goes each way, whatever either side sends.
"""

import asyncio
import contextlib
from collections.abc import Iterator

import h11

from worker.sandbox_guest.mux_stream import MuxStream, StreamReset
from worker.sandbox_router.heads import (
    MAX_HEAD_BYTES,
    build_forwarded_interim,
    build_forwarded_request,
    build_forwarded_response,
    measure_head,
)

READ_BYTES = 64 * 1024
MAX_EVENTS_PER_TURN = 64
"""Parts of a message that are handled before other tasks run: chunks may be as small as a byte."""

MAX_INTERIM_RESPONSES = 16
IDLE_SECONDS = 600.0
"""Seconds without a byte in either direction after which both connections end. SDKs keep streams alive each 50 s."""


class GuestFailed(Exception):
    """The guest sent no valid answer, or ended before it was complete."""


class Exchange:
    """`has_answered`: whether the client got a part of the guest's answer, so no other answer can follow."""

    def __init__(
        self,
        client: h11.Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        stream: MuxStream,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`client` has received the head of the request."""
        self.client, self.reader, self.writer, self.stream = client, reader, writer, stream
        self.guest = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self.has_answered = False
        self.idle_seconds = idle_seconds
        self.active_at = asyncio.get_running_loop().time()

    async def run(self, request: h11.Request) -> None:
        """Return when the exchange has ended or the client is gone. Raises `GuestFailed`, OSError, TimeoutError."""
        self.send_to_guest(build_forwarded_request(request))
        request_copy = asyncio.create_task(self.copy_request())
        response_copy = asyncio.create_task(self.copy_response())
        idle_watch = asyncio.create_task(self.watch_idle())
        tasks = (request_copy, response_copy, idle_watch)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not response_copy.done():
                for task in (idle_watch, request_copy):
                    if task.done():
                        return task.result()
            is_switched = response_copy.result()
            if is_switched:
                await stop_tasks(request_copy)
                await self.run_tunnel(idle_watch)
        finally:
            await stop_tasks(*tasks)

    async def watch_idle(self) -> None:
        """Raise TimeoutError when no byte has moved for long."""
        loop = asyncio.get_running_loop()
        while (remaining := self.active_at + self.idle_seconds - loop.time()) > 0:
            await asyncio.sleep(remaining)
        raise TimeoutError

    def record_activity(self) -> None:
        self.active_at = asyncio.get_running_loop().time()

    def send_to_guest(self, event: h11.Event) -> None:
        self.stream.write(self.guest.send(event) or b"")

    def send_to_client(self, event: h11.Event) -> None:
        data = self.client.send(event) or b""
        self.has_answered = True
        self.writer.write(data)

    async def copy_request(self) -> None:
        """Copy the body of the request, then wait until the client is gone. What follows the request is not passed on.

        Raises ConnectionError when the client sends no valid body.
        """
        with contextlib.suppress(StreamReset):  # what the guest sent before is still copied
            await self.copy_request_body()
        await self.wait_until_client_gone()

    async def copy_request_body(self) -> None:
        count = 0
        while True:
            event = self.next_client_event()
            if event is h11.NEED_DATA:
                await self.stream.drain()
                self.client.receive_data(await self.reader.read(READ_BYTES))
                self.record_activity()
            elif isinstance(event, h11.Data):
                self.send_to_guest(h11.Data(data=event.data))
            elif isinstance(event, h11.EndOfMessage):
                self.send_to_guest(event)
                return
            else:
                raise ConnectionError("The client has ended the connection.")
            count += 1
            if count % MAX_EVENTS_PER_TURN == 0:
                await self.stream.drain()
                await asyncio.sleep(0)

    def next_client_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self.client.next_event()
        except h11.RemoteProtocolError as error:
            raise ConnectionError(str(error)) from error

    async def wait_until_client_gone(self) -> None:
        """Return when the client has ended the connection, or sends more than a program would ahead of an answer.

        What it sends is kept for a tunnel.
        """
        size = 0
        while size < MAX_HEAD_BYTES and (data := await self.reader.read(READ_BYTES)):
            self.client.receive_data(data)
            size += len(data)

    async def copy_response(self) -> bool:
        """Copy the response. Return whether the guest has switched to the protocol that the client asked for."""
        interim_responses = count = 0
        while True:
            event = self.next_guest_event()
            if event is h11.NEED_DATA:
                await self.writer.drain()
                data = await self.stream.read(READ_BYTES)
                self.guest.receive_data(data)
                self.record_activity()
            elif isinstance(event, h11.InformationalResponse):
                interim_responses += 1
                if interim_responses > MAX_INTERIM_RESPONSES:
                    raise GuestFailed("too many interim responses")
                with refuse_bad_answers():
                    self.send_to_client(build_forwarded_interim(event))
                if event.status_code == 101:
                    return True
            elif isinstance(event, h11.Response):
                ensure_head_fits(event)
                with refuse_bad_answers():
                    self.send_to_client(build_forwarded_response(event))
            elif isinstance(event, h11.Data):
                self.send_to_client(h11.Data(data=event.data))
            elif isinstance(event, h11.EndOfMessage):
                self.send_to_client(event)
                await self.writer.drain()
                return False
            else:
                raise GuestFailed("no answer")
            count += 1
            if count % MAX_EVENTS_PER_TURN == 0:
                await self.writer.drain()
                await asyncio.sleep(0)

    def next_guest_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self.guest.next_event()
        except h11.RemoteProtocolError as error:
            raise GuestFailed(str(error)) from error

    async def run_tunnel(self, idle_watch: asyncio.Task[None]) -> None:
        """Copy bytes both ways until both directions have ended."""
        self.writer.write(self.guest.trailing_data[0])
        self.stream.write(self.client.trailing_data[0])
        copying = asyncio.gather(self.copy_to_guest(), self.copy_to_client())
        try:
            await asyncio.wait((copying, idle_watch), return_when=asyncio.FIRST_COMPLETED)
            (copying if copying.done() else idle_watch).result()
        finally:
            copying.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await copying

    async def copy_to_guest(self) -> None:
        while data := await self.reader.read(READ_BYTES):
            self.record_activity()
            self.stream.write(data)
            await self.stream.drain()
        self.stream.write_eof()

    async def copy_to_client(self) -> None:
        while data := await self.stream.read(READ_BYTES):
            self.record_activity()
            self.writer.write(data)
            await self.writer.drain()
        if self.writer.can_write_eof():
            self.writer.write_eof()


@contextlib.contextmanager
def refuse_bad_answers() -> Iterator[None]:
    """Turn what h11 does not send on into `GuestFailed`."""
    try:
        yield
    except h11.LocalProtocolError as error:
        raise GuestFailed(str(error)) from error


def ensure_head_fits(response: h11.Response) -> None:
    if measure_head(response.headers) > MAX_HEAD_BYTES:
        raise GuestFailed("the head of the answer is too large")


async def stop_tasks(*tasks: asyncio.Task) -> None:
    """Cancel the tasks and wait for their end, whatever they raise."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
