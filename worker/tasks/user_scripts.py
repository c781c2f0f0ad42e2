"""User scripts in a first-boot configuration.

Scripts in cloud-config format are merged into the customer's own configuration. Programs become files in cloud-init's
folder of per-instance scripts. cloud-init runs these by name at the end of the first boot, each on its own. So they run
after `runcmd` (whose file has that name), in their order, and one that fails does not stop the next.
"""

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import UserScript
from panel.schemas import cloudcfg

SCRIPTS_FOLDER = "/var/lib/cloud/instance/scripts"
LIST_SETTINGS = ("bootcmd", "packages", "runcmd", "write_files")
"""Settings whose lists are joined. Of other settings the first value counts."""


def get_scripts(work):
    """Return the scripts that a task names, in its order, with their present content."""
    script_ids = work.task.arguments.get("user_scripts", [])
    rows = {row.id: row for row in session.scalars(select(UserScript).where(UserScript.id.in_(script_ids)))}
    if len(rows) < len(script_ids):
        raise NotFound(message("A user script was deleted in the meantime. Select the scripts again."))
    return [rows[script_id] for script_id in script_ids]


def merge_scripts(config, scripts):
    """Return the customer's configuration, merged with the scripts' configurations and their programs as files."""
    files = []
    for script in scripts:
        if script.is_cloud_config:
            config = append_config(config, cloudcfg.parse(script.content))
        else:
            path = f"{SCRIPTS_FOLDER}/user-script-{len(files) + 1:02}"
            files.append({"path": path, "permissions": "0700", "content": script.program})
    return append_config(config, {"write_files": files}) if files else config


def append_config(first, second):
    """Merge two configurations. Lists are joined; of other settings the first one's value counts."""
    merged = {**second, **first}
    for name in LIST_SETTINGS:
        if isinstance(first.get(name), list) and isinstance(second.get(name), list):
            merged[name] = first[name] + second[name]
    return merged
