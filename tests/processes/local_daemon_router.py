"""`python -m tests.processes.local_daemon_router DAEMON_PORT ROOT`: the router for a simulated node.

All micro VMs have the same inside: the sandbox daemon at DAEMON_PORT of this machine. It reads its identity below ROOT.
"""

import asyncio
import getpass
import os
import sys
from pathlib import Path

from panel.core import config
from worker.engine.main import prepare_app
from worker.nodes.simulated.channels import Channels
from worker.sandbox_guest.channel import connect_port
from worker.sandbox_guest.identity_stream import receive_identity
from worker.sandbox_guest.mux import Mux
from worker.sandbox_guest.mux_stream import IDENTITY_PORT
from worker.sandbox_router import channels
from worker.sandbox_router.main import run_router

DAEMON_PORT, ROOT = int(sys.argv[1]), Path(sys.argv[2])
build_identity = channels.build_identity


def build_local_identity(route):
    """Return the identity with a user that exists on this machine."""
    return {**build_identity(route), "default_user": getpass.getuser()}


def serve_channel(guest_end):
    asyncio.run(serve_guest(guest_end))


async def serve_guest(guest_end):
    reader, writer = await asyncio.open_connection(sock=guest_end)
    await Mux(reader, writer, serve_stream).run()


async def serve_stream(stream):
    if stream.port == IDENTITY_PORT:
        return await receive_identity(stream, ROOT)
    stream.port = DAEMON_PORT
    return await connect_port(stream)


Channels.serve_channel = staticmethod(serve_channel)
channels.build_identity = build_local_identity
settings = config.load(os.environ)
run_router(settings, prepare_app(settings))
