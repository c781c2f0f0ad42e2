"""Commands and file contents of the documents for operators."""

import re
import textwrap
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def read_blocks(document, heading):
    """Return the indented blocks of a section."""
    section = (DOCS / document).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"(?:^ {4,}\S.*\n(?:\n(?= {4,}\S))?)+", section, re.MULTILINE)
    return [textwrap.dedent(block) for block in blocks]


def read_block(document, heading, beginning):
    """Return the one block of a section that begins like this."""
    (block,) = [block for block in read_blocks(document, heading) if block.startswith(beginning)]
    return block


def read_settings(document, heading, replaced):
    """Return the section's example of /etc/panel/panel.env with replaced values; None omits a setting."""
    settings = dict(line.split("=", 1) for line in read_block(document, heading, "PANEL_").splitlines())
    if unknown := replaced.keys() - settings.keys():
        raise ValueError(f"{document} does not set {unknown}")
    settings |= replaced
    return "".join(f"{name}={value}\n" for name, value in settings.items() if value is not None)
