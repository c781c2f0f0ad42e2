"""The service `process.Process`."""

import asyncio
import os
import signal
from typing import Any

from .calls import Call
from .connect_protocol import (
    Message,
    MessageStream,
    encode_message,
    get_bytes,
    get_deadline,
    get_field,
    get_flag,
    get_message,
    get_number,
    get_text,
    get_text_map,
    get_texts,
    read_envelopes,
)
from .errors import RpcError
from .process_table import ProcessSpec, ProcessTable
from .processes import Process

KEEPALIVE_EVENT = b'{"event":{"keepalive":{}}}'
SIGNALS: dict[Any, int] = {
    "SIGNAL_SIGKILL": signal.SIGKILL,
    "SIGNAL_SIGTERM": signal.SIGTERM,
    9: signal.SIGKILL,
    15: signal.SIGTERM,
}


class ProcessService:
    """Executes the calls about processes."""

    def __init__(self, table: ProcessTable):
        self.table = table

    async def list_processes(self, call: Call) -> Message:
        processes = [describe_process(process) for process in self.table.running.values()]
        return {"processes": processes}

    async def start(self, call: Call, stream: MessageStream) -> None:
        """Start a process and send its events. It goes on when the client disconnects."""
        deadline = get_deadline(call.request)
        process = self.table.start(read_spec(call))
        try:
            await send_events(process, stream, deadline)
        except RpcError as error:
            if error.code == "deadline_exceeded":
                # The end of the stream goes first: clients would report the exit instead of the time-out.
                await finish_quickly(stream, error)
                process.send_signal(signal.SIGKILL)
            else:
                raise

    async def connect(self, call: Call, stream: MessageStream) -> None:
        """Send the events of a process from now on."""
        process = self.get_process(call.message, with_ended=True)
        await send_events(process, stream, get_deadline(call.request))

    async def update(self, call: Call) -> Message:
        process = self.get_process(call.message)
        if get_field(call.message, "pty") is not None:
            process.set_terminal_size(*read_terminal_size(get_message(call.message, "pty")))
        return {}

    async def send_input(self, call: Call) -> Message:
        await write_input(self.get_process(call.message), get_message(call.message, "input"))
        return {}

    async def stream_input(self, call: Call, stream: MessageStream) -> None:
        """Pass the input of a stream of messages to the process that the first one names."""
        process: Process | None = None
        call.request.body.idle_timeout = None  # a person may type
        async for message in read_envelopes(call.request.body):
            if get_field(message, "start") is not None:
                process = self.get_process(get_message(message, "start"))
            elif get_field(message, "data") is not None:
                if process is None:
                    raise RpcError("invalid_argument", "the first message must name the process")
                if process.exit_status is not None:
                    raise RpcError("not_found", f"process {process.pid} has ended")
                await write_input(process, get_message(get_message(message, "data"), "input"))
        await stream.send(encode_message({}))

    async def send_signal(self, call: Call) -> Message:
        number = get_field(call.message, "signal")
        process = self.get_process(call.message)
        if not isinstance(number, str | int) or number not in SIGNALS:
            raise RpcError("unimplemented", "only SIGNAL_SIGTERM and SIGNAL_SIGKILL can be sent")
        process.send_signal(SIGNALS[number])
        return {}

    async def close_stdin(self, call: Call) -> Message:
        process = self.get_process(call.message)
        if process.terminal is not None:
            raise RpcError("internal", "the input of a terminal cannot be closed; send 0x04 instead")
        if process.input is not None:
            process.input.close()
        return {}

    def get_process(self, message: Message, *, with_ended: bool = False) -> Process:
        """Return the process that the field `process` of a message selects."""
        selector = get_message(message, "process")
        if get_field(selector, "tag") is not None:
            key: Message = {"tag": get_text(selector, "tag")}
        else:
            key = {"pid": get_number(selector, "pid")}
        process = self.table.find(key, with_ended=with_ended)
        if process is None or (process.exit_status is not None and not with_ended):
            raise RpcError("not_found", f"process with {next(iter(key))} {next(iter(key.values()))} not found")
        return process


def describe_process(process: Process) -> Message:
    tag = {} if process.tag is None else {"tag": process.tag}
    return {"config": process.config, "pid": process.pid, **tag}


def read_spec(call: Call) -> ProcessSpec:
    """Return what to start from a StartRequest."""
    process = get_message(call.message, "process")
    command, arguments = get_text(process, "cmd"), get_texts(process, "args")
    environment, folder = get_text_map(process, "envs"), get_text(process, "cwd")
    if not command:
        raise RpcError("invalid_argument", "the command is empty")
    user = call.user
    path = user.resolve_path(folder, empty=call.identity.default_workdir)
    if not os.path.isdir(path):
        raise RpcError("invalid_argument", f"cwd '{path}' does not exist")
    config: Message = {"cmd": command, "args": arguments, "envs": environment}
    has_terminal = get_field(call.message, "pty") is not None
    return ProcessSpec(
        config={**config, "cwd": folder} if folder else config,
        arguments=[command, *arguments],
        environment={**user.make_environment(), **call.identity.env, **environment},
        folder=path,
        user=user,
        tag=None if get_field(call.message, "tag") is None else get_text(call.message, "tag"),
        has_stdin=get_flag(call.message, "stdin", default=True),
        terminal_size=read_terminal_size(get_message(call.message, "pty")) if has_terminal else None,
    )


def read_terminal_size(terminal: Message) -> tuple[int, int]:
    """Return (columns, rows)."""
    size = get_message(terminal, "size")
    return get_number(size, "cols"), get_number(size, "rows")


async def write_input(process: Process, message: Message) -> None:
    """Write the data of a ProcessInput."""
    is_terminal = get_field(message, "pty") is not None
    if process.input is None:
        raise RpcError("internal", "the process was started without stdin")
    if is_terminal != (process.terminal is not None):
        kind = "a terminal" if process.terminal is not None else "stdin"
        raise RpcError("internal", f"the input of the process is {kind}")
    await process.input.write(get_bytes(message, "pty" if is_terminal else "stdin"))


async def send_events(process: Process, stream: MessageStream, deadline: float | None) -> None:
    """Send the start, the output and the end of a process; raises deadline_exceeded when the time is over."""
    subscription = process.subscribe()
    try:
        async with asyncio.timeout_at(deadline) as limit:
            await stream.send(encode_message({"event": {"start": {"pid": process.pid}}}))
            while True:
                try:
                    async with asyncio.timeout(stream.keepalive):
                        event = await subscription.get()
                except TimeoutError:
                    if limit.expired():
                        raise
                    event = KEEPALIVE_EVENT
                if event is None:
                    return
                await stream.send(event)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise RpcError("deadline_exceeded", "the time limit of the call is over") from error
    finally:
        process.unsubscribe(subscription)


async def finish_quickly(stream: MessageStream, error: RpcError) -> None:
    """Send the end of a stream without waiting for a client that does not read."""
    try:
        async with asyncio.timeout(1):
            await stream.end(error)
    except TimeoutError:
        stream.response.abort()
