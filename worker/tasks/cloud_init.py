"""First-boot configuration in cloud-init's NoCloud format.

Written as JSON, which is also YAML, so that small guests can read it with a small parser.
"""

import ipaddress
import json

from panel.schemas import cloudcfg
from worker.nodes.base import Seed
from worker.tasks import user_scripts


def build_seed(instance, arguments, password, task_id, scripts=(), image=None):
    """Return the three files of the seed. A new instance-id makes cloud-init ignore its state from earlier deploys."""
    return Seed(
        meta_data=to_yaml({"instance-id": task_id, "local-hostname": arguments["hostname"]}),
        user_data="#cloud-config\n"
        + to_yaml(build_user_data(arguments, password, scripts, image and image.cloud_config)),
        network_config=to_yaml(build_network_config(instance)),
    )


def to_yaml(document):
    """Return the document as JSON with unescaped characters, because YAML has no surrogate pairs."""
    return json.dumps(document, ensure_ascii=False)


def build_user_data(arguments, password, scripts=(), image_config=None):
    """Merge the settings of the platform, the image, the customer's scripts and the customer's `cloudcfg`.

    Later ones win. Of the image and the customer, commands, packages and files of both are used.
    """
    platform = {
        "hostname": arguments["hostname"].split(".")[0],
        "fqdn": arguments["hostname"],
        "disable_root": False,
        "ssh_pwauth": bool(password),
        "users": [{"name": "root", "lock_passwd": not password, "ssh_authorized_keys": arguments["ssh_keys"]}],
    }
    if password:
        platform["chpasswd"] = {"expire": False, "users": [{"name": "root", "password": password, "type": "text"}]}
    if arguments["timezone"]:
        platform["timezone"] = arguments["timezone"]
    image_settings = cloudcfg.parse(image_config)
    customer = user_scripts.merge_scripts(cloudcfg.parse(arguments["cloudcfg"]), scripts)
    customer = merge_image_config(
        customer, {name: image_settings[name] for name in image_settings.keys() - DEPLOY_OWNED_SETTINGS}
    )
    merged = merge_user_data(platform, customer)
    root = merged["users"][0]
    if password and "chpasswd" not in customer and root["lock_passwd"]:
        del merged["chpasswd"]  # setting a password would unlock it
    return merged


DEPLOY_OWNED_SETTINGS = frozenset(
    ("hostname", "fqdn", "users", "chpasswd", "password", "ssh_pwauth", "disable_root", "timezone")
)
"""Settings that an image cannot bring: a password or key in an image would give access to anybody who knows it."""


def merge_image_config(customer, image_settings):
    """Merge the customer's configuration over the image's. In joined lists the image's items come first."""
    merged = {**image_settings, **customer}
    for name in user_scripts.LIST_SETTINGS:
        if isinstance(image_settings.get(name), list) and isinstance(customer.get(name), list):
            merged[name] = image_settings[name] + customer[name]
    return merged


def merge_user_data(platform, customer):
    """Merge the customer's settings over the platform's. Users with the same name are merged field by field."""
    merged = {**platform, **customer}
    if "users" in customer:
        by_name = {user["name"]: user for user in platform["users"]}
        added = []
        for user in customer["users"] or []:
            if isinstance(user, dict) and user.get("name") in by_name:
                by_name[user["name"]] = {**by_name[user["name"]], **user}
            else:
                added.append(user)
        merged["users"] = [*by_name.values(), *added]
    return merged


def build_network_config(instance):
    """Return a netplan version 2 configuration with one entry for each interface, matched by MAC address."""
    return {
        "version": 2,
        "ethernets": {f"nic{interface.position}": build_ethernet(interface) for interface in instance.interfaces},
    }


def build_ethernet(interface):
    """Return the entry of one interface. From each prefix it gets the first address; the guest may use the rest."""
    addresses = sorted((*interface.addresses, *interface.prefixes), key=lambda address: address.kind != "public")
    subnets = {address.subnet.id: address.subnet for address in addresses}.values()
    return {
        "match": {"macaddress": interface.mac},
        "addresses": [format_cidr(address) for address in addresses],
        "routes": list(build_default_routes(subnets)),
        "nameservers": {"addresses": [server for subnet in subnets for server in subnet.nameservers]},
    }


def format_cidr(address):
    if address.length:
        return f"{ipaddress.ip_network(address.ip)[1]}/{address.length}"
    return f"{address.ip}/{address.subnet.network.prefixlen}"


def build_default_routes(subnets):
    """Yield one default route for each family, by the first subnet with a gateway.

    The gateway of a routed subnet is on-link.
    """
    for family, destination in ((4, "0.0.0.0/0"), (6, "::/0")):
        subnet = next((candidate for candidate in subnets if candidate.family == family and candidate.gateway), None)
        if subnet:
            options = {"on-link": True} if subnet.kind == "routed" else {}
            yield {"to": destination, "via": subnet.gateway, **options}
