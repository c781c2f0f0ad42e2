"""The commands: `mount`, `status`, `list PATH AFTER LIMIT` and `send PORT`. The results are JSON."""

import json
import os
import sys

from .errors import Refused
from .transfer import Port, serve
from .tree import list_folder
from .volumes import VOLUMES_FOLDER, mount_all, read_volumes


def main() -> None:
    command, *arguments = sys.argv[1:]
    if command == "mount":
        mount_all()
    elif command == "status":
        print(json.dumps(read_volumes()))
    elif command == "list":
        path, after, limit = arguments
        try:
            print(json.dumps(list_folder(VOLUMES_FOLDER, path, after, int(limit))))
        except Refused as refusal:
            print(json.dumps({"error": refusal.code}))
    elif command == "send":
        serve(Port(os.open(arguments[0], os.O_RDWR)), VOLUMES_FOLDER)
