"""A proxy between the panel and a libvirt daemon, which can be cut."""

import contextlib
import select
import socket
import threading


class CuttableProxy:
    """Forwards a TCP port of this machine to a libvirt socket, until it is cut. While `connected` is cleared nothing
    moves and nothing ends."""

    def __init__(self, path: str):
        self.path, self.connected, self.is_refusing, self.sockets = path, threading.Event(), False, []
        self.connected.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"qemu+tcp://127.0.0.1:{self.listener.getsockname()[1]}/system"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                if self.is_refusing:
                    client.close()
                    continue
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(self.path)
                self.sockets += [client, upstream]
                threading.Thread(target=self.forward, args=(client, upstream), daemon=True).start()

    def forward(self, client, upstream):
        with contextlib.suppress(OSError, ValueError):  # closed meanwhile
            while True:
                for connection in select.select([client, upstream], [], [])[0]:
                    data = connection.recv(65536)
                    self.connected.wait()
                    (upstream if connection is client else client).sendall(data)
                    if not data:
                        return client.close()

    def refuse(self):
        """End all connections, and new ones at once, until `accept`."""
        self.is_refusing = True
        for connection in self.sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.sockets.clear()

    def accept(self):
        self.is_refusing = False

    def end(self):
        self.connected.set()
        for connection in (self.listener, *self.sockets):
            connection.close()
