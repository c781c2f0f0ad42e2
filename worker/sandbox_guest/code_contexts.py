"""The contexts of the code interpreter: each is a process that executes Python code in a namespace of its own."""

import asyncio
import codecs
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, BinaryIO

from .errors import HttpError, RpcError
from .identity import Identity
from .users import get_user

MAX_CONTEXTS = 32
MAX_EVENT_BYTES = 64 * 1024 * 1024
READ_BYTES = 32 * 1024
INTERRUPT_SECONDS = 2.0
"""How long an interrupted execution has to end before its process is killed."""

MAX_READS_PER_TURN = 16
"""So that the end of the code is noticed while something that it has started prints without end."""

PACKAGE_PARENT = str(Path(__file__).parents[1])
START_KERNEL = """import sys
sys.path.append(sys.argv[1])
from sandbox_guest import code_kernel
code_kernel.main()"""
"""The folder of the package goes last, so that the user's own modules come first, as in any program."""

Event = dict[str, Any]

KERNEL_DIED: Event = {
    "type": "error",
    "name": "KernelDied",
    "value": "The process that executed the code has ended.",
    "traceback": "",
}


class Context:
    """A namespace with its process, which is started for the first code and started again after it has ended."""

    def __init__(self, identity: Identity, folder: str):
        self.id = str(uuid.uuid4())
        self.identity = identity
        self.folder = folder
        self.lock = asyncio.Lock()
        self.executions = 0
        self.popen: subprocess.Popen[bytes] | None = None

    def describe(self) -> dict[str, str]:
        return {"id": self.id, "language": "python", "cwd": self.folder}

    async def start(self) -> None:
        user = get_user(self.identity.default_user)
        own_end, kernel_end = socket.socketpair()
        credentials = {"user": user.uid, "group": user.gid, "extra_groups": user.groups} if os.geteuid() == 0 else {}
        environment = {**user.make_environment(), "LANG": "C.UTF-8", **self.identity.env}
        with kernel_end:
            self.popen = subprocess.Popen(  # type: ignore[call-overload]
                [sys.executable, "-c", START_KERNEL, PACKAGE_PARENT, str(kernel_end.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=self.folder,
                env=environment,
                pass_fds=[kernel_end.fileno()],
                start_new_session=True,
                **credentials,
            )
        self.events, self.requests = await asyncio.open_connection(sock=own_end, limit=MAX_EVENT_BYTES)
        self.executions = 0
        self.outputs: dict[str, Any] = {"stdout": self.popen.stdout, "stderr": self.popen.stderr}
        for pipe in self.outputs.values():
            os.set_blocking(pipe.fileno(), False)

    def stop(self) -> None:
        """Kill the process and what it has started, and forget the namespace. An execution ends with an error."""
        if self.popen is not None:
            self.send_signal(signal.SIGKILL)
            self.popen.returncode = -signal.SIGKILL  # the daemon's table of processes collects it
            self.popen = None
            self.requests.close()
            self.outputs = {}  # an execution that still reads closes the pipes

    def send_signal(self, number: int) -> None:
        assert self.popen
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, number)

    async def execute(self, code: str, env_vars: dict[str, str]) -> AsyncIterator[Event]:
        """Execute the code and give its events. Closing the iterator before the end interrupts the execution."""
        async with self.lock:
            if self.popen is None:
                await self.start()
            self.executions += 1
            yield {"type": "number_of_executions", "execution_count": self.executions}
            request = {"code": code, "env_vars": env_vars, "number": self.executions}
            self.requests.write(json.dumps(request).encode() + b"\n")
            has_ended = False
            try:
                async for event in self.iterate_events():
                    yield event
                has_ended = True
            finally:
                if not has_ended:
                    await asyncio.shield(self.interrupt())

    async def iterate_events(self) -> AsyncIterator[Event]:
        """Give the events of the code that is being executed: what it prints, its results, its error."""
        events, outputs = self.events, self.outputs
        decoders = {kind: codecs.getincrementaldecoder("utf-8")("replace") for kind in outputs}
        line = asyncio.ensure_future(events.readline())
        try:
            while True:
                await wait_for_output(line, outputs.values())
                for kind, pipe in list(outputs.items()):
                    for _turn in range(MAX_READS_PER_TURN):
                        piece = pipe.read(READ_BYTES)
                        if piece == b"":  # the code has closed it
                            del outputs[kind]
                        if not piece:
                            break
                        if text := decoders[kind].decode(piece):
                            yield {"type": kind, "text": text, "timestamp": time.time_ns()}
                if line.done():
                    event = parse_event(line.result())
                    if event["type"] == "done":
                        return
                    yield event
                    if event is KERNEL_DIED:
                        self.stop()
                        return
                    line = asyncio.ensure_future(events.readline())
        finally:
            line.cancel()

    async def interrupt(self) -> None:
        """End the execution: with an interrupt, which keeps the namespace, otherwise by killing the process."""
        if self.popen is None:
            return
        self.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(INTERRUPT_SECONDS):
                async for _event in self.iterate_events():
                    pass
        except TimeoutError:
            self.stop()


async def wait_for_output(line: asyncio.Future[Any], pipes: Iterable[BinaryIO]) -> None:
    """Wait until the code has sent an event or has printed something."""
    loop = asyncio.get_running_loop()
    printed = asyncio.Event()
    waiting: asyncio.Future[Any] = asyncio.ensure_future(printed.wait())
    descriptors = [pipe.fileno() for pipe in pipes]
    for descriptor in descriptors:
        loop.add_reader(descriptor, printed.set)
    try:
        await asyncio.wait({line, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        for descriptor in descriptors:
            loop.remove_reader(descriptor)


def parse_event(line: bytes) -> Event:
    """Return an event of the process; `KERNEL_DIED` when it has ended, or sent something else."""
    with contextlib.suppress(ValueError):
        event = json.loads(line)
        if isinstance(event, dict) and isinstance(event.get("type"), str):
            return event
    return KERNEL_DIED


class ContextTable:
    """The contexts of a sandbox. Code that names none is executed in the default one."""

    def __init__(self) -> None:
        self.contexts: dict[str, Context] = {}
        self.default: Context | None = None

    def create(self, identity: Identity, folder: str = "") -> Context:
        if len(self.contexts) >= MAX_CONTEXTS:
            raise HttpError(429, f"there are {MAX_CONTEXTS} contexts; remove one first")
        try:
            path = get_user(identity.default_user).resolve_path(folder, empty=identity.default_workdir)
        except RpcError as error:
            raise HttpError(400, error.message) from error
        if not os.path.isdir(path):
            raise HttpError(400, f"cwd '{path}' does not exist")
        context = Context(identity, path)
        self.contexts[context.id] = context
        return context

    def get_default(self, identity: Identity) -> Context:
        if self.default is None or self.default.id not in self.contexts:
            self.default = self.create(identity)
        return self.default

    def get(self, context_id: str) -> Context:
        if context_id not in self.contexts:
            raise HttpError(404, f"context '{context_id}' does not exist")
        return self.contexts[context_id]

    def remove(self, context_id: str) -> None:
        self.get(context_id).stop()
        del self.contexts[context_id]
