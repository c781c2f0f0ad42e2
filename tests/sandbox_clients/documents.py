"""The code blocks of the project's documents."""

import re

from panel.core.config import ROOT


def list_blocks(path, heading):
    """Return the indented blocks below a heading of a document, as they would be typed."""
    text = (ROOT / "docs" / path).read_text()
    section = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"(?:^(?:    .*)?\n)+", section[2], re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE).strip("\n") + "\n" for block in blocks if block.strip()]
