"""Makes `disable_root` hold for passwords as well: cloud-init's own ssh module only forbids root's keys."""

from cloudinit import util
from cloudinit.settings import PER_INSTANCE

meta = {
    "id": "cc_root_login",
    "name": "Root login",
    "title": "Let root sign in over ssh with a password, or not",
    "description": "PermitRootLogin follows `disable_root`; whether passwords count at all is `ssh_pwauth`.",
    "distros": ["all"],
    "frequency": PER_INSTANCE,
    "examples": ["disable_root: false"],
    "activate_by_schema_keys": [],
}

SETTING = "/etc/ssh/sshd_config.d/40-root-login.conf"


def handle(name, cfg, cloud, log, args):
    keys_only = util.get_cfg_option_bool(cfg, "disable_root", True)
    util.write_file(SETTING, f"PermitRootLogin {'prohibit-password' if keys_only else 'yes'}\n")
