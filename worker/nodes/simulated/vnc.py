"""The screen of simulated machines: a VNC server that greets and says, as RFB allows, why it shows nothing."""

import contextlib
import functools
import os
import socketserver
import threading

REASON = b"This is a simulated machine: it has no picture."


class Greeting(socketserver.StreamRequestHandler):
    timeout = 10

    def handle(self):
        with contextlib.suppress(OSError):  # the viewer may leave at any point
            self.wfile.write(b"RFB 003.008\n")
            self.rfile.read(12)  # the viewer's version
            self.wfile.write(b"\0" + len(REASON).to_bytes(4, "big") + REASON)  # no way to sign in, because …


class Listener(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


def screen():
    """Host and port. It lives as long as this process, as the screens of a node that went down go dark."""
    return listener(os.getpid()).server_address


@functools.cache
def listener(process):
    """One for each process: threads do not survive a fork."""
    server = Listener(("127.0.0.1", 0), Greeting)
    threading.Thread(target=server.serve_forever, name="simulated-screen", daemon=True).start()
    return server
