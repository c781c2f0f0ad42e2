"""PNG images of screens."""

import struct
import zlib

MAX_HEADER_BYTES = 100
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def encode(width: int, height: int, pixels: bytes) -> bytes:
    """Return the image of that size with three bytes for each pixel: red, green, blue."""
    line = 3 * width
    lines = b"".join(b"\0" + pixels[start : start + line] for start in range(0, line * height, line))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return SIGNATURE + b"".join(make_chunk(*part) for part in parts)


def make_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def convert_ppm(image: bytes) -> bytes:
    """Convert a binary PPM image of 8 bits for each color. Raise ValueError for anything else."""
    kind, *numbers = image[:MAX_HEADER_BYTES].split(maxsplit=4)[:4]
    if kind != b"P6" or len(numbers) != 3:
        raise ValueError("not a PPM image")
    width, height, maximum = map(int, numbers)
    size = 3 * width * height
    if maximum != 255 or not 0 < size < len(image):
        raise ValueError("not a PPM image of a screen")
    return encode(width, height, image[-size:])
