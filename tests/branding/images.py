"""Images for brands."""

import struct
import zlib

TOO_WIDE = 4096


def make_png(width=8, height=8):
    """Return a PNG image of one gray."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def make_webp(width=8, height=8):
    """Return the head of a lossless WebP image."""
    bits = (width - 1) | (height - 1) << 14
    return b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f" + bits.to_bytes(4, "little") + bytes(9)
