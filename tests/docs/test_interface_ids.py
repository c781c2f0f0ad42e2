"""docs/interface.md explains every interface id that the code cites."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CITING_FOLDERS = ("tests", "panel", "api", "worker", "consoles")
ID_PREFIXES = "IDT ENV BIL INS FRG RSC ISO IMG SSH CON WHK DLV MET BAK POL DST BLK REC HVG SUB VPC LBA K8S ASG MVM SBX"
ID_PREFIXES += " DOC MCP IAC OTH ERR LIM VER NS OP TX"
ID_PATTERN = re.compile(rf"\b(?:{ID_PREFIXES.replace(' ', '|')})-\d{{2,3}}\b")


def find_cited_ids():
    """Return the ids with the first file that cites them."""
    cited = {}
    for folder in CITING_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name != "test_interface_ids.py":
                for interface_id in ID_PATTERN.findall(path.read_text()):
                    cited.setdefault(interface_id, str(path.relative_to(ROOT)))
    return cited


def list_explained_ids():
    return re.findall(rf"^\| ({ID_PATTERN.pattern}) \| .+ \|$", (ROOT / "docs" / "interface.md").read_text(), re.M)


def test_cited_interface_ids_are_explained():
    explained = set(list_explained_ids())
    assert {key: file for key, file in find_cited_ids().items() if key not in explained} == {}


def test_interface_ids_are_explained_once():
    assert [key for key, count in Counter(list_explained_ids()).items() if count > 1] == []
