"""The private members of websockify that consoles/compat.py uses. If one of these tests fails after an upgrade, adapt
that module to the new version."""

import socket

import pytest
from websockify.websocket import WebSocketWantReadError

from consoles.compat import ObservableWebSocket

HANDSHAKE = {"upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "a2V5"}
BINARY, CLOSE, FINAL = 0x2, 0x8, 0x80
MASK = b"\x01\x02\x03\x04"


class RecordingWebSocket(ObservableWebSocket):
    """Records which methods websockify calls."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def on_received(self):
        self.calls.append("received")

    def on_unread(self, buffer):
        self.calls.append(f"begun {len(buffer)}")

    def on_decoded(self, frame):
        self.calls.append(f"frame {frame['opcode']}")
        frame["payload"] = frame["payload"].upper()

    def on_socket_unused(self):
        self.calls.append("unused")
        self.socket = None


@pytest.fixture
def websocket_pair():
    """A WebSocket after its handshake, and the client's socket."""
    server, client = socket.socketpair()
    with server, client:
        server.setblocking(False)
        websocket = RecordingWebSocket()
        websocket.accept(server, HANDSHAKE)
        assert client.recv(4096).startswith(b"HTTP/1.1 101 ")
        yield websocket, client


def mask_frame(first_byte, payload):
    masked = bytes(byte ^ MASK[position % 4] for position, byte in enumerate(payload))
    length = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2, "big")
    return bytes([first_byte]) + length + MASK + masked


def test_receive_hooks_are_called_in_order(websocket_pair):
    websocket, client = websocket_pair
    client.sendall(mask_frame(FINAL | BINARY, b"hello"))
    assert websocket.recvmsg() == b"HELLO"
    assert websocket.calls == ["received", "begun 11", f"frame {BINARY}", "begun 0"]


@pytest.mark.parametrize("size", [0, 1, 7, 1024, 1025])
def test_messages_with_all_sizes_are_unmasked(websocket_pair, size):
    websocket, client = websocket_pair
    client.sendall(mask_frame(FINAL | BINARY, b"ab3" * size))
    assert websocket.recvmsg() == b"AB3" * size


def test_websocket_uses_own_unmask_method(websocket_pair, monkeypatch):
    websocket, client = websocket_pair
    monkeypatch.setattr(ObservableWebSocket, "_unmask", lambda *_: b"unmasked here")
    client.sendall(mask_frame(FINAL | BINARY, b"hello"))
    assert websocket.recvmsg() == b"UNMASKED HERE"


def test_partial_messages_are_counted_and_discarded(websocket_pair):
    websocket, client = websocket_pair
    client.sendall(mask_frame(BINARY, b"half") + mask_frame(FINAL | BINARY, b"cut off")[:5])
    with pytest.raises(WebSocketWantReadError):
        websocket.recvmsg()
    assert (websocket.partial_size, websocket.unread_size) == (4, 5)
    websocket.discard_received()
    assert (websocket.partial_size, websocket.unread_size) == (0, 0)


def test_frames_are_queued_in_order(websocket_pair):
    websocket, client = websocket_pair
    websocket.queue_message(BINARY, b"first")
    websocket.queue_message(BINARY, b"second")
    assert websocket.unsent_size == len(b"first") + len(b"second") + 4
    websocket.send_queue()
    assert websocket.unsent_size == 0
    assert client.recv(4096) == b"\x82\x05first\x82\x06second"


def test_close_frame_state_is_tracked(websocket_pair):
    websocket, client = websocket_pair
    assert (websocket.is_close_sent, websocket.is_close_received) == (False, False)
    websocket.shutdown(None, 1000, "")
    assert (websocket.is_close_sent, websocket.is_close_received) == (True, False)
    client.sendall(mask_frame(FINAL | CLOSE, b""))
    assert websocket.recvmsg() is None
    assert (websocket.is_close_sent, websocket.is_close_received) == (True, True)
    assert websocket.calls[-1] == "unused"
