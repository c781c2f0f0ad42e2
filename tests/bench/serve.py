"""One web process of four threads."""

import signal
import sys
from importlib import import_module

from panel.app import MAX_BODY_BYTES
from panel.server.connection_limits import ConnectionLimits
from panel.server.server import open_listener, serve


def main(port, target):
    """Serve the application that the function `target`, `module:function()`, returns."""
    module, function = target.removesuffix("()").split(":")
    application = getattr(import_module(module), function)()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    listener = open_listener(f"127.0.0.1:{port}")
    serve(application, listener, threads=4, body_max_bytes=MAX_BODY_BYTES, limits=ConnectionLimits())
