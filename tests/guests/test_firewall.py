"""Firewalls by what really passes between two guests, and between a guest and its node."""

import socket

import pytest

from tests.processes.conftest import wait_until

pytestmark = pytest.mark.guest

SSH_RULE = {"direction": "ingress", "protocol": "tcp", "port_range_min": 22, "port_range_max": 22}


def fetch(ip, port):
    """Says what the page holds. The guest's own `wget` cannot be used: it is linked without a resolver."""
    return f"printf 'GET /page HTTP/1.0\\r\\n\\r\\n' | nc -w 4 {ip} {port} | tail -n 1"


class Pair:
    """A server and a client; both are reached from the node by SSH."""

    def __init__(self, lab):
        self.lab = lab
        self.server, self.client = self.made(), self.made()
        self.four, self.six = self.addresses(self.server)
        for port in (25, 7001, 7002):
            assert (
                self.serves(f"mkdir -p /srv; echo yes >/srv/page; httpd -p {port} -h /srv; echo started") == "started"
            )

    def made(self):
        instance = self.lab.create()
        self.lab.install(instance, ssh_keys=[self.lab.key_id])
        return self.lab.show(instance)

    def addresses(self, instance):
        return instance["primary_public_ip"]["ip"], instance["primary_public_ipv6"]["ip"]

    def serves(self, command):
        return self.lab.ssh(self.four, command).strip()

    def asks(self, command):
        return self.lab.ssh(self.addresses(self.client)[0], command).strip()

    def reaches(self, port, family=4, host=None):
        return self.asks(fetch(host or (self.four if family == 4 else self.six), port)) == "yes"

    def pings(self, family=4):
        ip = self.four if family == 4 else self.six
        return self.asks(f"ping -{family} -c 1 -W 2 {ip} >/dev/null && echo yes || echo no") == "yes"

    def group(self, *rules, instances=()):
        made = self.lab.call("POST", "/api/security-groups", {"name": "g"})["security_group"]["id"]
        for rule in rules:
            self.rule(made, **rule)
        self.attach(made, *instances)
        return made

    def rule(self, group, **facts):
        body = {"ip_version": "ipv4", **facts}
        made = self.lab.call("POST", f"/api/security-group/{group}/rules", body)["rule"]["id"]
        self.applied()
        return made

    def attach(self, group, *instances):
        if instances:
            body = {"instance_ids": [each["id"] for each in instances]}
            self.lab.call("POST", f"/api/security-group/{group}/attach-instances", body)
            self.applied()

    def applied(self):
        def none_open():
            tasks = [task for task in self.lab.call("GET", "/api/tasks")["data"] if task["kind"] == "firewall_apply"]
            assert not [task for task in tasks if task["status"] == "failed"], tasks
            return all(task["status"] == "completed" for task in tasks)

        wait_until(none_open, "the rules to be applied")

    def remove(self, group):
        self.lab.call("DELETE", f"/api/security-group/{group}")
        self.applied()


@pytest.fixture(scope="module")
def pair(lab):
    return Pair(lab)


def http_rule(family, port=7001, **more):
    version = f"ipv{family}"
    return {
        "direction": "ingress",
        "protocol": "tcp",
        "ip_version": version,
        "port_range_min": port,
        "port_range_max": port,
        **more,
    }


@pytest.mark.parametrize("family", [4, 6])
def test_only_what_a_rule_allows_comes_in_and_all_of_it_goes_out(pair, family):
    assert pair.reaches(7001, family)
    assert pair.reaches(7002, family)
    assert pair.pings(family)
    group = pair.group(http_rule(family), {**SSH_RULE, "ip_version": "ipv4"}, instances=[pair.server])
    assert pair.reaches(7001, family)
    assert not pair.reaches(7002, family)
    assert not pair.pings(family)
    own = pair.lab.ssh(pair.addresses(pair.client)[0], "httpd -p 7009 -h / ; echo up >/page; echo ok").strip()
    assert own == "ok"
    there = pair.addresses(pair.client)[family == 6]
    assert pair.serves(fetch(there, 7009)) == "up", "what the server begins is answered"
    echo = {"direction": "ingress", "protocol": "icmp" if family == 4 else "icmpv6", "ip_version": f"ipv{family}"}
    pair.rule(group, **echo)
    assert pair.pings(family)
    pair.remove(group)
    assert pair.reaches(7002, family)


def test_the_node_and_what_it_routes_get_no_answer_either(pair, lab):
    group = pair.group({**SSH_RULE, "ip_version": "ipv4"}, instances=[pair.server])
    assert pair.serves("echo in") == "in"
    assert not is_answering(pair.four, 7001)
    pair.rule(group, **http_rule(4))
    assert is_answering(pair.four, 7001)
    assert not is_answering(pair.four, 7002)
    pair.remove(group)
    assert is_answering(pair.four, 7002)


def is_answering(ip, port):
    try:
        socket.create_connection((ip, port), timeout=3).close()
    except OSError:
        return False
    return True


def test_a_rule_for_a_group_lets_its_guests_in(pair):
    clients = pair.group()
    servers = pair.group(
        http_rule(4, remote_group_id=clients),
        http_rule(6, remote_group_id=clients),
        {**SSH_RULE, "ip_version": "ipv4"},
        instances=[pair.server],
    )
    assert not pair.reaches(7001)
    assert not pair.reaches(7001, 6)
    pair.attach(clients, pair.client)
    client_rules = pair.group({**SSH_RULE, "ip_version": "ipv4"}, instances=[pair.client])
    assert pair.reaches(7001)
    assert pair.reaches(7001, 6)
    assert not pair.reaches(7002)
    for group in (servers, client_rules, clients):
        pair.remove(group)


def test_rules_for_going_out_shut_the_rest(pair):
    group = pair.group(
        {**SSH_RULE, "ip_version": "ipv4"},
        {**http_rule(4, 7002), "direction": "egress", "cidr": f"{pair.four}/32"},
        instances=[pair.client],
    )
    assert not pair.reaches(7001)
    assert pair.reaches(7002)
    pair.remove(group)
    assert pair.reaches(7001)


def test_rules_hold_after_the_machine_was_off(pair, lab):
    group = pair.group({**SSH_RULE, "ip_version": "ipv4"}, instances=[pair.server])
    lab.power(pair.server, "poweroff")
    lab.power(pair.server, "start")
    assert pair.serves("httpd -p 7001 -h /srv; echo started") == "started"
    assert not pair.reaches(7001)
    pair.remove(group)
    assert pair.reaches(7001)
    assert pair.serves("httpd -p 7002 -h /srv; httpd -p 25 -h /srv; echo started") == "started"


def test_mail_is_shut_by_its_switch(pair, lab):
    """INS-23: the switch does what it says."""
    assert pair.reaches(25)
    switch(lab, pair, False)
    assert not pair.reaches(25)
    assert not pair.reaches(25, 6)
    assert pair.reaches(7001)
    switch(lab, pair, True)
    assert pair.reaches(25)


def switch(lab, pair, on):
    lab.call("PATCH", f"/api/instance/{pair.client['id']}", {"enable_smtp": on})
    pair.applied()


def test_a_guest_in_a_group_still_cannot_use_other_addresses(pair, lab):
    """The guard against false addresses holds beside the rules, also right after they change."""
    group = pair.group({**SSH_RULE, "ip_version": "ipv4"}, http_rule(4), instances=[pair.client, pair.server])
    stolen = pair.four.rsplit(".", 1)[0] + ".250"
    steal = (
        f"ip addr add {stolen}/32 dev eth0; ping -c 1 -W 2 -I {stolen} {pair.four} >/dev/null && echo yes || echo no"
    )
    assert pair.asks(steal) == "no"
    assert pair.reaches(7001)
    assert pair.asks(f"ip addr del {stolen}/32 dev eth0; echo gone") == "gone"
    pair.remove(group)


def test_a_further_address_works_once_it_is_given_and_no_longer(pair, lab):
    """SUB-01: a free address is nobody's; the node enforces it."""
    [subnet] = [row for row in lab.admin("GET", "/subnets") if row["family"] == 4]
    free = lab.admin("GET", f"/subnet/{subnet['id']}/available-ips")[-1]["ip"]
    ips = f"/instance/{pair.server['id']}/ips"
    assert pair.serves(f"ip addr add {free}/32 dev eth0; echo taken") == "taken"
    assert not pair.reaches(7001, host=free)
    lab.admin("POST", ips, {"action": "add", "ips": [free]})
    pair.applied()
    assert pair.reaches(7001, host=free)
    lab.admin("POST", ips, {"action": "remove", "ips": [free]})
    pair.applied()
    assert not pair.reaches(7001, host=free)
    assert pair.reaches(7001)
    assert pair.serves(f"ip addr del {free}/32 dev eth0; echo gone") == "gone"


def test_a_network_that_is_cut_off_carries_nothing_while_the_guest_runs(pair, lab):
    boot = pair.serves("cat /proc/sys/kernel/random/boot_id")
    path = f"/instance/{pair.server['id']}/network/public"
    lab.admin("POST", f"{path}/disable")
    pair.applied()
    assert not pair.reaches(7001)
    assert not is_answering(pair.four, 22)
    assert lab.show(pair.server)["state"] == "running"
    lab.admin("POST", f"{path}/enable")
    pair.applied()
    wait_until(lambda: is_answering(pair.four, 22), "the network to come back")
    assert pair.serves("cat /proc/sys/kernel/random/boot_id") == boot
    assert pair.reaches(7001)
    assert pair.reaches(7001, 6)
