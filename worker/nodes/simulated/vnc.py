"""The VNC console of simulated machines: a server that greets and reports, in RFB's own way, that it shows nothing."""

import contextlib
import functools
import os
import socketserver
import threading

NO_PICTURE_MESSAGE = b"This is a simulated machine: it has no picture."


class VncGreeting(socketserver.StreamRequestHandler):
    timeout = 10

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # the viewer may leave at any point
            self.wfile.write(b"RFB 003.008\n")
            self.rfile.read(12)  # the viewer's version
            self.wfile.write(
                b"\0" + len(NO_PICTURE_MESSAGE).to_bytes(4, "big") + NO_PICTURE_MESSAGE
            )  # no security types, with the reason


class VncListener(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


def get_vnc_address() -> tuple[str, int]:
    """Return host and port. The server lives as long as this process, so consoles close when it ends, as on a lost
    node."""
    host, port = get_listener(os.getpid()).socket.getsockname()
    return host, port


@functools.cache
def get_listener(process: int) -> VncListener:
    """Return the listener of this process: threads do not survive a fork."""
    server = VncListener(("127.0.0.1", 0), VncGreeting)
    threading.Thread(target=server.serve_forever, name="simulated-screen", daemon=True).start()
    return server
