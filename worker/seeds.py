"""First-boot configuration (cloud-init's NoCloud). Written as JSON, which is YAML too, so that small guests can read it
with a small parser."""

import json

from panel.schemas import cloudcfg
from worker import user_scripts
from worker.nodes.base import Seed


def seed(instance, arguments, password, task_id, scripts=()):
    """The three files for this deploy. Each has an instance-id of its own, so that nothing of an earlier one counts."""
    return Seed(
        meta_data=written({"instance-id": task_id, "local-hostname": arguments["hostname"]}),
        user_data="#cloud-config\n" + written(user_data(arguments, password, scripts)),
        network_config=written(network_config(instance)),
    )


def written(document):
    """As YAML reads it: characters as themselves, because YAML knows no surrogate pairs."""
    return json.dumps(document, ensure_ascii=False)


def user_data(arguments, password, scripts=()):
    """The platform's settings with the customer's own on top: what the customer wrote always wins, and in what the
    customer wrote `cloudcfg` wins over `scripts`."""
    ours = {
        "hostname": arguments["hostname"].split(".")[0],
        "fqdn": arguments["hostname"],
        "disable_root": False,
        "ssh_pwauth": bool(password),
        "users": [{"name": "root", "lock_passwd": not password, "ssh_authorized_keys": arguments["ssh_keys"]}],
    }
    if password:
        ours["chpasswd"] = {"expire": False, "users": [{"name": "root", "password": password, "type": "text"}]}
    if arguments["timezone"]:
        ours["timezone"] = arguments["timezone"]
    theirs = user_scripts.joined(cloudcfg.parse(arguments["cloudcfg"]), scripts)
    merged = merge(ours, theirs)
    root = merged["users"][0]
    if password and "chpasswd" not in theirs and root["lock_passwd"]:
        del merged["chpasswd"]  # setting a password would unlock it
    return merged


def merge(ours, theirs):
    """The customer's settings replace ours; a user of the same name is merged field by field, theirs on top."""
    merged = {**ours, **theirs}
    if "users" in theirs:
        named = {user["name"]: user for user in ours["users"]}
        rest = []
        for user in theirs["users"] or []:
            if isinstance(user, dict) and user.get("name") in named:
                named[user["name"]] = {**named[user["name"]], **user}
            else:
                rest.append(user)
        merged["users"] = [*named.values(), *rest]
    return merged


def network_config(instance):
    """Netplan's version 2, one entry an interface, matched by its hardware address."""
    return {
        "version": 2,
        "ethernets": {f"nic{i.position}": ethernet(i) for i in instance.interfaces},
    }


def ethernet(interface):
    addresses = interface.addresses
    subnets = {address.subnet.id: address.subnet for address in addresses}.values()
    return {
        "match": {"macaddress": interface.mac},
        "addresses": [f"{a.ip}/{a.subnet.network.prefixlen}" for a in addresses],
        "routes": [
            {"to": "0.0.0.0/0" if subnet.family == 4 else "::/0", "via": subnet.gateway}
            for subnet in subnets
            if subnet.gateway
        ],
        "nameservers": {"addresses": [server for subnet in subnets for server in subnet.nameservers]},
    }
