"""User scripts in a first-boot configuration.

Configuration (`#cloud-config`) is joined with the customer's own. Programs become files where cloud-init looks for what
to run at the end of an instance's first boot. It runs them by name, each on its own, so they come after `runcmd` (whose
file has that name), in their order, and one that fails does not keep the next from running.
"""

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import UserScript
from panel.schemas import cloudcfg

SCRIPTS_FOLDER = "/var/lib/cloud/instance/scripts"
LIST_SETTINGS = ("bootcmd", "packages", "runcmd", "write_files")
"""Settings of which everybody's count, one after the other; of others the first who sets them."""


def get_scripts(work):
    """The scripts that a task names, in its order. They are read now: what they say is not kept with the task."""
    wanted = work.task.arguments.get("user_scripts", [])
    found = {row.id: row for row in session.scalars(select(UserScript).where(UserScript.id.in_(wanted)))}
    if len(found) < len(wanted):
        raise NotFound("A user script was removed meanwhile. Choose again which are to run.")
    return [found[script_id] for script_id in wanted]


def merge_scripts(theirs, scripts):
    """The customer's configuration with that of the scripts behind it, and their programs as files."""
    files = []
    for script in scripts:
        if script.is_cloud_config:
            theirs = append_config(theirs, cloudcfg.parse(script.content))
        else:
            path = f"{SCRIPTS_FOLDER}/user-script-{len(files) + 1:02}"
            files.append({"path": path, "permissions": "0700", "content": script.program})
    return append_config(theirs, {"write_files": files}) if files else theirs


def append_config(first, then):
    """Both configurations as one. Lists are joined; of anything else the first counts."""
    both = {**then, **first}
    for name in LIST_SETTINGS:
        if isinstance(first.get(name), list) and isinstance(then.get(name), list):
            both[name] = first[name] + then[name]
    return both
