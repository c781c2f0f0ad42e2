"""The channel between a guest and the panel, as a local socket.

libvirt carries its bytes over a connection to the node, in whatever way the node is reached. The caller gets one end of
a socket pair, which can be polled or passed on, as libvirt's stream cannot. Two threads copy between the other end and
the stream, because libvirt's streams over a connection have two gaps (9.0 to 12.8), also in non-blocking mode:

* `send` waits while the guest does not read. The other direction must go on meanwhile.
* What the guest sends is queued in this process without a limit, whether anybody takes it or not. So it is always read,
  and a channel whose caller leaves too much is ended.

Two threads on one connection may crash the process if both wait for the network (`connection`). Here only the one that
sends does: a non-blocking `recv` takes what the event loop has queued.
"""

import collections
import contextlib
import select
import socket
import threading

import libvirt
import structlog
from lxml import etree

from panel.core.messages import message
from worker.nodes.base import CHANNEL_NAME, MAX_UNREAD_CHANNEL_BYTES, NodeError, Refused
from worker.nodes.libvirt.connection import ConnectionPool, has_event_loop
from worker.nodes.libvirt.errors import translate_errors
from worker.nodes.libvirt.pools import UPLOAD_CHUNK_BYTES

log = structlog.get_logger()

WOULD_BLOCK = -2
"""The result of a read when no bytes have arrived."""

STREAM_EVENTS = libvirt.VIR_STREAM_EVENT_READABLE | libvirt.VIR_STREAM_EVENT_ERROR | libvirt.VIR_STREAM_EVENT_HANGUP
ALIVE_CHECK_INTERVAL_SECONDS = 5.0

LAST_BYTES_TIMEOUT_SECONDS = 0.5
"""How long the guest has to take what a caller sent before it closed its end."""


def open_channel(connections: ConnectionPool, machine_id: str) -> socket.socket:
    if earlier := connections.newest_channels.get(machine_id):
        earlier.set_superseded()
    connection = connections.take_for_channel()
    try:
        with translate_errors(connection, message("open the channel")):
            stream = open_stream(connection, machine_id)
    except BaseException:
        connections.release_from_channel(connection)
        raise
    copier = StreamCopier(connections, connection, stream, machine_id)
    connections.newest_channels[machine_id] = copier
    threading.Thread(target=copier.run, name="libvirt channel", daemon=True).start()
    return copier.caller_end


def take_over(connections: ConnectionPool, machine_id: str) -> None:
    """End the machine's channel by opening it once more. The node forgets what it holds for the guest."""
    with contextlib.suppress(NodeError, libvirt.libvirtError), contextlib.closing(connections.open()) as connection:
        open_stream(connection, machine_id).abort()


def open_stream(connection: libvirt.virConnect, machine_id: str) -> libvirt.virStream:
    if not has_event_loop():
        detail = "this process was forked from one that used libvirt; open the channel from that one or from a new one"
        raise Refused(message("The channel cannot be opened from here."), detail)
    domain = connection.lookupByUUIDString(machine_id)
    if not domain.isActive():
        raise Refused(message("The machine is off."), f"machine {machine_id}")
    target = etree.fromstring(domain.XMLDesc()).xpath("devices/channel/target[@name=$name]", name=CHANNEL_NAME)
    if not target:
        raise Refused(message("The machine has no channel."), f"machine {machine_id} runs without {CHANNEL_NAME}")
    stream = connection.newStream(libvirt.VIR_STREAM_NONBLOCK)
    domain.openChannel(CHANNEL_NAME, stream, libvirt.VIR_DOMAIN_CHANNEL_FORCE)
    return stream


class StreamCopier:
    """Copies bytes in both directions until either end is closed."""

    def __init__(
        self, connections: ConnectionPool, connection: libvirt.virConnect, stream: libvirt.virStream, machine_id: str
    ) -> None:
        self.connections, self.connection, self.stream, self.machine_id = connections, connection, stream, machine_id
        self.lock, self.is_superseded = threading.Lock(), False
        """Whether another channel is being opened, which ends this one. It must not be ended by `take_over` then."""
        self.caller_end, self.own_end = socket.socketpair()
        self.wake_reader, self.wake_writer = socket.socketpair()
        self.wake_reader.setblocking(False)
        self.wake_writer.setblocking(False)
        self.unread: collections.deque[bytes] = collections.deque()
        """Pieces from the guest that the caller has not taken."""
        self.unread_bytes = 0
        self.has_stream_ended = False
        self.sender = threading.Thread(target=self.copy_to_guest, name="libvirt channel sender", daemon=True)

    def run(self) -> None:
        self.sender.start()
        try:
            self.stream.eventAddCallback(STREAM_EVENTS, wake_thread, self.wake_writer)
            self.copy_to_caller()
        except (libvirt.libvirtError, OSError) as error:
            log.debug("channel_ended", detail=str(error))
        finally:
            self.close()

    def set_superseded(self) -> None:
        with self.lock:
            self.is_superseded = True

    def copy_to_guest(self) -> None:
        """Copy what the caller sends. Ends when an end is closed, and wakes the other thread."""
        with contextlib.suppress(libvirt.libvirtError, OSError):
            while data := memoryview(self.own_end.recv(UPLOAD_CHUNK_BYTES)):
                while data:
                    data = data[self.stream.send(bytes(data)) :]
        with contextlib.suppress(OSError):
            self.wake_writer.send(b"!")

    def copy_to_caller(self) -> None:
        """Copy what the guest sends, until an end is closed or the caller leaves too much."""
        while self.connection.isAlive() and self.sender.is_alive():
            has_more = self.read_guest()
            if self.unread_bytes > MAX_UNREAD_CHANNEL_BYTES:
                log.warning("channel_unread", bytes=self.unread_bytes)
                return
            if self.has_stream_ended and not self.unread:
                return
            if not self.wait(0 if has_more else ALIVE_CHECK_INTERVAL_SECONDS):
                return

    def read_guest(self) -> bool:
        """Read a piece of what has arrived. If nothing has, let libvirt report the next bytes and return false."""
        data = b"" if self.has_stream_ended else self.stream.recv(UPLOAD_CHUNK_BYTES)
        if data == WOULD_BLOCK:
            self.stream.eventUpdateCallback(STREAM_EVENTS)
            return False
        self.has_stream_ended = not data
        if data:
            self.unread.append(data)
            self.unread_bytes += len(data)
        return bool(data)

    def wait(self, seconds: float) -> bool:
        """Wait for either end, and pass on what the caller takes. Returns whether the caller's end is open."""
        poll = select.poll()
        poll.register(self.wake_reader, select.POLLIN)
        poll.register(self.own_end, select.POLLOUT if self.unread else 0)
        events = dict(poll.poll(seconds * 1000))
        if self.wake_reader.fileno() in events:
            self.wake_reader.recv(4096)
        caller_events = events.get(self.own_end.fileno(), 0)
        if caller_events & (select.POLLHUP | select.POLLERR):
            return False
        if caller_events & select.POLLOUT:
            piece = self.unread.popleft()
            sent = self.own_end.send(piece, socket.MSG_DONTWAIT)
            self.unread_bytes -= sent
            if sent < len(piece):
                self.unread.appendleft(piece[sent:])
        return True

    def close(self) -> None:
        """Close both ends, when the thread that sends has ended. It may wait for a guest that does not read."""
        with contextlib.suppress(libvirt.libvirtError):
            self.stream.eventRemoveCallback()
        with contextlib.suppress(OSError):
            self.own_end.shutdown(socket.SHUT_RDWR)
        self.sender.join(LAST_BYTES_TIMEOUT_SECONDS)
        if self.sender.is_alive():
            with self.lock:
                if not self.is_superseded:
                    take_over(self.connections, self.machine_id)
            self.sender.join()
        if self.connections.newest_channels.get(self.machine_id) is self:
            del self.connections.newest_channels[self.machine_id]
        self.own_end.close()
        with contextlib.suppress(libvirt.libvirtError):
            self.stream.abort()
        self.connections.release_from_channel(self.connection)
        self.wake_reader.close()
        self.wake_writer.close()


def wake_thread(stream: libvirt.virStream, events: int, wake_writer: socket.socket) -> None:
    """Wake the thread that copies. Called on libvirt's thread, again and again while there is something to read: so
    events are turned off until the thread has read it. It is no method, because libvirt-python keeps it for ever."""
    with contextlib.suppress(libvirt.libvirtError, OSError):
        stream.eventUpdateCallback(0)
        wake_writer.send(b"!")
