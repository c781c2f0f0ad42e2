"""Names of files as text. A name may have any bytes: in a text those that are not printable UTF-8, and `%`, are written
as %XX."""

from urllib.parse import unquote_to_bytes

from .errors import NOT_FOUND, Refused


def encode_name(name: bytes) -> str:
    text = name.decode("utf-8", "surrogateescape")
    return "".join(char if char.isprintable() and char != "%" else quote(char) for char in text)


def quote(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))


def decode_path(text: str) -> list[bytes]:
    """Return the names in a path, the volume first. Raise Refused for what no file can have."""
    names = [unquote_to_bytes(part) for part in text.split("/") if part]
    if any(name in (b".", b"..") or b"/" in name or b"\0" in name for name in names):
        raise Refused(NOT_FOUND)
    return names
