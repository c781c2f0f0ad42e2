"""A machine's screen without a machine: a VNC server that draws, and writes down every key it is given."""

import struct
import threading

from tests.support import vnc_server
from tests.support.vnc_server import read_exactly

WIDTH, HEIGHT = 640, 400
QEMU_KEYS = -258
"""The pseudo-encoding by which a server says that it takes keys by their place."""

NAMES = {0x1D: "Ctrl", 0x2A: "Shift", 0x38: "Alt", 0xB8: "AltGr"}


class VncMachine(vnc_server.VncServer):
    """`keys` are (scancode, down) in the order in which they came; `pasted` what was put into its clipboard."""

    def __init__(self):
        self.keys, self.pasted, self.drawn = [], [], threading.Event()
        super().__init__(self.show)

    @property
    def strokes(self):
        """The same as words: `Shift+10` for the key with scancode 0x10 while Shift was down."""
        held, strokes = [], []
        for code, down in self.keys:
            if code in NAMES and down:
                held.append(NAMES[code])
            elif code in NAMES:
                held.remove(NAMES[code])
            elif down:
                strokes.append("+".join([*held, f"{code:02x}"]))
        return strokes

    def show(self, connection):
        connection.sendall(struct.pack(">HH", WIDTH, HEIGHT) + pixel_format() + struct.pack(">I", 7) + b"machine")
        shade = 0
        asked = False
        while kind := connection.recv(1):
            changed = True
            match kind[0]:
                case 0:
                    read_exactly(connection, 19)
                case 2:
                    (count,) = struct.unpack(">xH", read_exactly(connection, 3))
                    read_exactly(connection, 4 * count)
                    connection.sendall(struct.pack(">BxHHHHHi", 0, 1, 0, 0, 0, 0, QEMU_KEYS))
                case 3:
                    incremental, *_ = read_exactly(connection, 9)
                    changed, asked = not incremental, True
                case 5:
                    read_exactly(connection, 5)
                case 6:
                    (length,) = struct.unpack(">xxxi", read_exactly(connection, 7))
                    self.pasted.append(read_exactly(connection, abs(length)))
                case 255:
                    down, _, code = struct.unpack(">xHII", read_exactly(connection, 11))
                    self.keys.append((code, bool(down)))
            if asked and changed:
                shade = (shade + 40) % 200
                connection.sendall(picture_rectangle(shade))
                self.drawn.set()
                asked = False

    def copies(self, text):
        """Somebody copies in the machine."""
        for connection in self.connections[-1:]:
            connection.sendall(struct.pack(">BxxxI", 3, len(text)) + text)


def pixel_format():
    return struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)


def picture_rectangle(shade):
    """One rectangle of one colour, in RRE."""
    head = struct.pack(">BxHHHHHi", 0, 1, 0, 0, WIDTH, HEIGHT, 2)
    return head + struct.pack(">I", 0) + bytes([shade, 80, 120, 0])
