"""Addresses and firewalls, by the packets that pass between two guests, and between a guest and its node."""

import ipaddress
import socket

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest

PREFIX_POOL, PRIVATE_POOL, FOREIGN_PRIVATE_IP = "fd77::/48", "10.77.0.0/29", "10.77.0.6"
SSH_RULE = {"direction": "ingress", "protocol": "tcp", "port_range_min": 22, "port_range_max": 22}


def fetch_command(ip, port):
    """Return a command that prints the page. The guest's own `wget` cannot be used: it is linked without a resolver."""
    return f"printf 'GET /page HTTP/1.0\\r\\n\\r\\n' | nc -w 4 {ip} {port} | tail -n 1"


class Pair:
    """A server and a client with a prefix and a private address each, on the same hypervisor. The node reaches both by
    SSH."""

    def __init__(self, lab, plan_id):
        self.lab = lab
        instances = [lab.create(plan_id=plan_id) for _ in range(2)]
        body = {"image_id": lab.image, "ssh_keys": [lab.key_id]}
        answers = [lab.call("POST", f"/api/instance/{instance['id']}/deploy", body) for instance in instances]
        for answer in answers:
            lab.wait_for_task(answer["task_id"])
        self.server, self.client = map(lab.get_instance, instances)
        self.four, self.six = self.get_addresses(self.server)
        assert self.start_servers(25, 7001, 7002) == "started"

    def get_addresses(self, instance):
        return instance["primary_public_ip"]["ip"], instance["primary_public_ipv6"]["ip"]

    def start_servers(self, *ports):
        servers = "; ".join(f"httpd -p {port} -h /srv" for port in ports)
        return self.run_on_server(f"mkdir -p /srv; echo yes >/srv/page; {servers}; echo started")

    def run_on_server(self, command):
        return self.lab.ssh(self.four, command).strip()

    def run_on_client(self, command):
        return self.lab.ssh(self.get_addresses(self.client)[0], command).strip()

    def can_fetch(self, port, family=4, host=None):
        """Return whether the client gets the server's page."""
        return self.run_on_client(fetch_command(host or (self.four if family == 4 else self.six), port)) == "yes"

    def can_ping(self, family=4):
        ip = self.four if family == 4 else self.six
        return self.run_on_client(f"ping -{family} -c 1 -W 2 {ip} >/dev/null && echo yes || echo no") == "yes"

    def ping_from(self, *pairs):
        """Return for each pair of a source and a destination whether the client's ping is answered."""
        commands = (f"ping -c 6 -W 3 -I {source} {ip} >/dev/null && echo yes || echo no" for source, ip in pairs)
        return self.run_on_client("; ".join(commands)).split()

    def create_group(self, *rules, instances=()):
        group = self.lab.call("POST", "/api/security-groups", {"name": "g"})["security_group"]["id"]
        for rule in rules:
            self.add_rule(group, **rule)
        self.attach(group, *instances)
        return group

    def add_rule(self, group, **values):
        body = {"ip_version": "ipv4", **values}
        self.lab.call("POST", f"/api/security-group/{group}/rules", body)
        self.wait_until_applied()

    def attach(self, group, *instances):
        if instances:
            body = {"instance_ids": [instance["id"] for instance in instances]}
            self.lab.call("POST", f"/api/security-group/{group}/attach-instances", body)
            self.wait_until_applied()

    def wait_until_applied(self):
        def are_tasks_completed():
            tasks = [task for task in self.lab.call("GET", "/api/tasks")["data"] if task["kind"] == "firewall_apply"]
            assert not [task for task in tasks if task["status"] == "failed"], tasks
            return all(task["status"] == "completed" for task in tasks)

        wait_until(are_tasks_completed, "the rules to be applied")

    def remove_group(self, group):
        self.lab.call("DELETE", f"/api/security-group/{group}")
        self.wait_until_applied()


@pytest.fixture(scope="module")
def pair(lab):
    """Two guests. A router would lead from one prefix to another: here the whole pool is on the wire."""
    location = {"hypervisor_group_id": lab.location}
    subnets = [
        lab.call_admin("POST", "/subnets", {**location, "name": kind, "kind": kind, "cidr": cidr})["id"]
        for kind, cidr in (("routed", PREFIX_POOL), ("private", PRIVATE_POOL))
    ]
    tiny = lab.call_admin("GET", f"/instance/plan/{lab.plan}")
    size = {name: tiny[name] for name in ("plan_group_id", "cpu_cores", "ram", "storage")}
    plan = lab.call_admin(
        "POST", "/instance/plans", {**size, "name": "Addressed", "ipv6_prefixes": 1, "private_ipv4": 1}
    )
    pair = Pair(lab, plan["id"])
    yield pair
    for instance in (pair.client, pair.server):
        lab.destroy(instance)
    lab.call_admin("DELETE", f"/instance/plan/{plan['id']}")
    for subnet in subnets:
        lab.call_admin("DELETE", f"/subnet/{subnet}")


def get_first_address(prefix):
    return prefix.replace("::/64", "::1")


def test_guests_use_only_their_own_prefix_and_private_address(pair):
    """INS-72, INS-73: the guest has the first address of its prefix from its first boot on and may use the rest of it;
    nothing gets out from an address of another prefix, or from another private address."""
    own, other = (get_first_address(instance["ipv6_prefixes"][0]["prefix"]) for instance in (pair.client, pair.server))
    another, foreign = str(ipaddress.ip_address(own) + 0x12345677), "fd77:0:0:77::1"
    private, other_private = (instance["primary_private_ip"]["ip"] for instance in (pair.client, pair.server))
    add_route = f"ip -6 route add {PREFIX_POOL} dev eth0"
    pair.run_on_server(add_route)
    wait_until(lambda: "tentative" not in pair.run_on_server("ip addr show dev eth0"), "the server's addresses")
    addresses = pair.run_on_client(f"{add_route}; ip addr show dev eth0").split()
    assert (f"{own}/64" in addresses, f"{private}/29" in addresses) == (True, True)
    commands = (
        "echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad",
        *(f"ip -6 addr add {address}/128 dev eth0" for address in (another, foreign)),
        f"ip addr add {FOREIGN_PRIVATE_IP}/29 dev eth0",
        "ip addr show dev eth0",
    )
    addresses = pair.run_on_client("; ".join(commands)).split()
    wait_until(lambda: "tentative" not in pair.run_on_client("ip addr show dev eth0"), "the client's own addresses")
    assert {f"{another}/128", f"{foreign}/128", f"{FOREIGN_PRIVATE_IP}/29"} <= set(addresses)
    answers = pair.ping_from(
        (own, other),
        (another, other),
        (foreign, other),
        (private, other_private),
        (FOREIGN_PRIVATE_IP, other_private),
        (own, other),
    )
    assert answers == ["yes", "yes", "no", "yes", "no", "yes"]
    deletes = [f"ip -6 addr del {address}/128 dev eth0" for address in (another, foreign)]
    pair.run_on_client("; ".join((*deletes, f"ip addr del {FOREIGN_PRIVATE_IP}/29 dev eth0")))


def make_http_rule(family, port=7001, **fields):
    version = f"ipv{family}"
    return {
        "direction": "ingress",
        "protocol": "tcp",
        "ip_version": version,
        "port_range_min": port,
        "port_range_max": port,
        **fields,
    }


@pytest.mark.parametrize("family", [4, 6])
def test_ingress_needs_rule_and_egress_is_open(pair, family):
    assert pair.can_fetch(7001, family)
    assert pair.can_fetch(7002, family)
    assert pair.can_ping(family)
    group = pair.create_group(make_http_rule(family), {**SSH_RULE, "ip_version": "ipv4"}, instances=[pair.server])
    assert pair.can_fetch(7001, family)
    assert not pair.can_fetch(7002, family)
    assert not pair.can_ping(family)
    assert pair.run_on_client("httpd -p 7009 -h / ; echo up >/page; echo ok") == "ok"
    client_ip = pair.get_addresses(pair.client)[family == 6]
    assert pair.run_on_server(fetch_command(client_ip, 7009)) == "up", "the server's own connections are answered"
    echo = {"direction": "ingress", "protocol": "icmp" if family == 4 else "icmpv6", "ip_version": f"ipv{family}"}
    pair.add_rule(group, **echo)
    assert pair.can_ping(family)
    pair.remove_group(group)
    assert pair.can_fetch(7002, family)


def test_ingress_rules_apply_to_node(pair, lab):
    group = pair.create_group({**SSH_RULE, "ip_version": "ipv4"}, instances=[pair.server])
    assert pair.run_on_server("echo in") == "in"
    assert not is_answering(pair.four, 7001)
    pair.add_rule(group, **make_http_rule(4))
    assert is_answering(pair.four, 7001)
    assert not is_answering(pair.four, 7002)
    pair.remove_group(group)
    assert is_answering(pair.four, 7002)


def is_answering(ip, port):
    try:
        socket.create_connection((ip, port), timeout=3).close()
    except OSError:
        return False
    return True


def test_remote_group_rule_admits_its_instances(pair):
    clients = pair.create_group()
    servers = pair.create_group(
        make_http_rule(4, remote_group_id=clients),
        make_http_rule(6, remote_group_id=clients),
        {**SSH_RULE, "ip_version": "ipv4"},
        instances=[pair.server],
    )
    assert not pair.can_fetch(7001)
    assert not pair.can_fetch(7001, 6)
    pair.attach(clients, pair.client)
    client_rules = pair.create_group({**SSH_RULE, "ip_version": "ipv4"}, instances=[pair.client])
    assert pair.can_fetch(7001)
    assert pair.can_fetch(7001, 6)
    assert not pair.can_fetch(7002)
    for group in (servers, client_rules, clients):
        pair.remove_group(group)


def test_egress_rule_blocks_other_destinations(pair):
    group = pair.create_group(
        {**SSH_RULE, "ip_version": "ipv4"},
        {**make_http_rule(4, 7002), "direction": "egress", "cidr": f"{pair.four}/32"},
        instances=[pair.client],
    )
    assert not pair.can_fetch(7001)
    assert pair.can_fetch(7002)
    pair.remove_group(group)
    assert pair.can_fetch(7001)


def test_rules_survive_power_cycle(pair, lab):
    group = pair.create_group({**SSH_RULE, "ip_version": "ipv4"}, instances=[pair.server])
    lab.run_power_action(pair.server, "poweroff")
    lab.run_power_action(pair.server, "start")
    assert pair.start_servers(7001) == "started"
    assert not pair.can_fetch(7001)
    pair.remove_group(group)
    assert pair.can_fetch(7001)
    assert pair.start_servers(7002, 25) == "started"


def test_smtp_switch_blocks_mail(pair, lab):
    """INS-23"""
    assert pair.can_fetch(25)
    set_smtp(lab, pair, False)
    assert not pair.can_fetch(25)
    assert not pair.can_fetch(25, 6)
    assert pair.can_fetch(7001)
    set_smtp(lab, pair, True)
    assert pair.can_fetch(25)


def set_smtp(lab, pair, is_enabled):
    lab.call("PATCH", f"/api/instance/{pair.client['id']}", {"enable_smtp": is_enabled})
    pair.wait_until_applied()


def test_guest_in_group_cannot_use_other_addresses(pair, lab):
    """Address spoofing is blocked beside the rules, also right after they change."""
    group = pair.create_group(
        {**SSH_RULE, "ip_version": "ipv4"}, make_http_rule(4), instances=[pair.client, pair.server]
    )
    stolen = pair.four.rsplit(".", 1)[0] + ".250"
    steal = (
        f"ip addr add {stolen}/32 dev eth0; ping -c 1 -W 2 -I {stolen} {pair.four} >/dev/null && echo yes || echo no"
    )
    assert pair.run_on_client(steal) == "no"
    assert pair.can_fetch(7001)
    assert pair.run_on_client(f"ip addr del {stolen}/32 dev eth0; echo gone") == "gone"
    pair.remove_group(group)


def test_additional_address_works_only_while_assigned(pair, lab):
    """SUB-01: the node blocks an address that is not assigned."""
    [subnet] = [row for row in lab.call_admin("GET", "/subnets") if row["name"] == "v4"]
    free = lab.call_admin("GET", f"/subnet/{subnet['id']}/available-ips")[-1]["ip"]
    ips = f"/instance/{pair.server['id']}/ips"
    assert pair.run_on_server(f"ip addr add {free}/32 dev eth0; echo taken") == "taken"
    assert not pair.can_fetch(7001, host=free)
    lab.call_admin("POST", ips, {"action": "add", "ips": [free]})
    pair.wait_until_applied()
    assert pair.can_fetch(7001, host=free)
    lab.call_admin("POST", ips, {"action": "remove", "ips": [free]})
    pair.wait_until_applied()
    assert not pair.can_fetch(7001, host=free)
    assert pair.can_fetch(7001)
    assert pair.run_on_server(f"ip addr del {free}/32 dev eth0; echo gone") == "gone"


def test_disabled_network_carries_nothing_while_guest_runs(pair, lab):
    boot = lab.read_boot_id(pair.four)
    path = f"/instance/{pair.server['id']}/network/public"
    lab.call_admin("POST", f"{path}/disable")
    pair.wait_until_applied()
    assert not pair.can_fetch(7001)
    assert not is_answering(pair.four, 22)
    assert lab.get_instance(pair.server)["state"] == "running"
    lab.call_admin("POST", f"{path}/enable")
    pair.wait_until_applied()
    wait_until(lambda: is_answering(pair.four, 22), "the network to come back")
    assert lab.read_boot_id(pair.four) == boot
    assert pair.can_fetch(7001)
    assert pair.can_fetch(7001, 6)
