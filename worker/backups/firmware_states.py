"""The state of a machine's firmware and TPM as text, in manifests."""

from base64 import b64decode, b64encode
from collections.abc import Mapping

import zstandard

MAX_STATE_BYTES = 64 * 1024**2
"""Bytes to which a part may decompress."""


def pack_state(state: Mapping[str, bytes]) -> dict[str, str]:
    return {name: b64encode(zstandard.compress(content)).decode() for name, content in state.items()}


def unpack_state(packed: Mapping[str, str]) -> dict[str, bytes]:
    decompress = zstandard.ZstdDecompressor().decompress
    return {name: decompress(b64decode(text), max_output_size=MAX_STATE_BYTES) for name, text in packed.items()}
