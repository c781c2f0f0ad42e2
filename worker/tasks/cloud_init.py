"""First-boot configuration (cloud-init's NoCloud). Written as JSON, which is YAML too, so that small guests can read it
with a small parser."""

import ipaddress
import json

from panel.schemas import cloudcfg
from worker.nodes.base import Seed
from worker.tasks import user_scripts


def build_seed(instance, arguments, password, task_id, scripts=(), image=None):
    """The three files for this deploy. Each has an instance-id of its own, so that nothing of an earlier one counts."""
    return Seed(
        meta_data=to_yaml({"instance-id": task_id, "local-hostname": arguments["hostname"]}),
        user_data="#cloud-config\n"
        + to_yaml(build_user_data(arguments, password, scripts, image and image.cloud_config)),
        network_config=to_yaml(build_network_config(instance)),
    )


def to_yaml(document):
    """As YAML reads it: characters as themselves, because YAML knows no surrogate pairs."""
    return json.dumps(document, ensure_ascii=False)


def build_user_data(arguments, password, scripts=(), image_config=None):
    """The platform's settings with the customer's own on top: what the customer wrote always wins, and in what the
    customer wrote `cloudcfg` wins over `scripts`. The image's own configuration lies between the two: what it says of
    an account or a setting gives way to the customer's, and commands, packages and files of both count."""
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
    images = cloudcfg.parse(image_config)
    theirs = user_scripts.merge_scripts(cloudcfg.parse(arguments["cloudcfg"]), scripts)
    theirs = merge_image_config(theirs, {name: images[name] for name in images.keys() - DEPLOY_OWNED_SETTINGS})
    merged = merge_user_data(ours, theirs)
    root = merged["users"][0]
    if password and "chpasswd" not in theirs and root["lock_passwd"]:
        del merged["chpasswd"]  # setting a password would unlock it
    return merged


DEPLOY_OWNED_SETTINGS = frozenset(
    ("hostname", "fqdn", "users", "chpasswd", "password", "ssh_pwauth", "disable_root", "timezone")
)
"""What a deploy decides anew each time: an image that came with a password or a key would let in whoever knows it."""


def merge_image_config(theirs, images):
    """The customer's configuration over the image's. Of lists the image's comes first: it prepares the system."""
    both = {**images, **theirs}
    for name in user_scripts.LIST_SETTINGS:
        if isinstance(images.get(name), list) and isinstance(theirs.get(name), list):
            both[name] = images[name] + theirs[name]
    return both


def merge_user_data(ours, theirs):
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


def build_network_config(instance):
    """Netplan's version 2, one entry an interface, matched by its hardware address."""
    return {
        "version": 2,
        "ethernets": {f"nic{i.position}": build_ethernet(i) for i in instance.interfaces},
    }


def build_ethernet(interface):
    """Of each prefix the guest gets the first address; the others are its own to use."""
    held = sorted((*interface.addresses, *interface.prefixes), key=lambda address: address.kind != "public")
    subnets = {address.subnet.id: address.subnet for address in held}.values()
    return {
        "match": {"macaddress": interface.mac},
        "addresses": [format_cidr(address) for address in held],
        "routes": list(default_routes(subnets)),
        "nameservers": {"addresses": [server for subnet in subnets for server in subnet.nameservers]},
    }


def format_cidr(address):
    if address.length:
        return f"{ipaddress.ip_network(address.ip)[1]}/{address.length}"
    return f"{address.ip}/{address.subnet.network.prefixlen}"


def default_routes(subnets):
    """One a family, by the first subnet that has a router. That of a routed subnet lies outside the guest's prefix."""
    for family, everywhere in ((4, "0.0.0.0/0"), (6, "::/0")):
        subnet = next((each for each in subnets if each.family == family and each.gateway), None)
        if subnet:
            outside = {"on-link": True} if subnet.kind == "routed" else {}
            yield {"to": everywhere, "via": subnet.gateway, **outside}
