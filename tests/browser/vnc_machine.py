"""A VNC server that draws a picture and records all keys, in place of a machine."""

import struct
import threading
from collections import Counter

from tests.support import vnc_server
from tests.support.vnc_server import read_exactly

WIDTH, HEIGHT = 640, 400
QEMU_EXTENDED_KEY_EVENT_ENCODING = -258
"""The pseudo-encoding of servers that accept keys by scancode."""

MODIFIER_NAMES = {0x1D: "Ctrl", 0x2A: "Shift", 0x38: "Alt", 0xB8: "AltGr"}


class VncMachine(vnc_server.VncServer):
    """`keys` are the received (scancode, down) in order. `pasted` are the received clipboard texts."""

    def __init__(self):
        self.keys, self.pasted, self.drawn = [], [], threading.Event()
        super().__init__(self.serve_screen)

    @property
    def strokes(self):
        """Return the keys as text: `Shift+10` for the key with scancode 0x10 while Shift was down."""
        modifiers, strokes = [], []
        for code, down in self.keys:
            if code in MODIFIER_NAMES and down:
                modifiers.append(MODIFIER_NAMES[code])
            elif code in MODIFIER_NAMES:
                modifiers.remove(MODIFIER_NAMES[code])
            elif down:
                strokes.append("+".join([*modifiers, f"{code:02x}"]))
        return strokes

    @property
    def held_keys(self):
        """Return the scancodes of the keys that are down."""
        presses = Counter()
        for code, down in self.keys:
            presses[code] += 1 if down else -1
        return [code for code, count in presses.items() if count]

    def serve_screen(self, connection):
        connection.sendall(struct.pack(">HH", WIDTH, HEIGHT) + make_pixel_format() + struct.pack(">I", 7) + b"machine")
        shade = 0
        update_requested = False
        while kind := connection.recv(1):
            changed = True
            match kind[0]:
                case 0:
                    read_exactly(connection, 19)
                case 2:
                    (count,) = struct.unpack(">xH", read_exactly(connection, 3))
                    read_exactly(connection, 4 * count)
                    connection.sendall(struct.pack(">BxHHHHHi", 0, 1, 0, 0, 0, 0, QEMU_EXTENDED_KEY_EVENT_ENCODING))
                case 3:
                    incremental, *_ = read_exactly(connection, 9)
                    changed, update_requested = not incremental, True
                case 5:
                    read_exactly(connection, 5)
                case 6:
                    (length,) = struct.unpack(">xxxi", read_exactly(connection, 7))
                    self.pasted.append(read_exactly(connection, abs(length)))
                case 255:
                    down, _, code = struct.unpack(">xHII", read_exactly(connection, 11))
                    self.keys.append((code, bool(down)))
            if update_requested and changed:
                shade = (shade + 40) % 200
                connection.sendall(make_rectangle_update(shade))
                self.drawn.set()
                update_requested = False

    def send_clipboard(self, text):
        """Send a clipboard text to the client, as when a user copies text in the machine."""
        for connection in self.connections[-1:]:
            connection.sendall(struct.pack(">BxxxI", 3, len(text)) + text)


def make_pixel_format():
    return struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)


def make_rectangle_update(shade):
    """Return an update with one rectangle of one color, in RRE encoding."""
    head = struct.pack(">BxHHHHHi", 0, 1, 0, 0, WIDTH, HEIGHT, 2)
    return head + struct.pack(">I", 0) + bytes([shade, 80, 120, 0])
