"""Prefixes and private addresses by what really passes between two guests."""

import pytest

pytestmark = pytest.mark.guest

POOL, PRIVATE, FOREIGN4 = "fd77::/48", "10.77.0.0/29", "10.77.0.6"


class Pair:
    """Two guests with a prefix and a private address each, on the same hypervisor."""

    def __init__(self, lab, plan):
        self.lab = lab
        made = [lab.create(plan_id=plan) for _ in range(2)]
        body = {"image_id": lab.image, "ssh_keys": [lab.key_id]}
        begun = [lab.call("POST", f"/api/instance/{each['id']}/deploy", body) for each in made]
        for answer in begun:
            lab.finished(answer["task_id"])
        self.client, self.server = map(lab.show, made)

    def on(self, instance, *commands):
        return self.lab.ssh(instance["primary_public_ip"]["ip"], "; ".join(commands)).split()

    def answered(self, *pings):
        """For each pair of own address and other's address whether the client's ping is answered."""
        asked = (f"ping -c 6 -W 3 -I {own} {other} >/dev/null && echo yes || echo no" for own, other in pings)
        return self.on(self.client, *asked)


@pytest.fixture
def pair(lab):
    """A router would lead from one prefix to another: here the whole pool is on the wire."""
    place = {"hypervisor_group_id": lab.location}
    pools = [
        lab.admin("POST", "/subnets", {**place, "name": "routed", "kind": "routed", "cidr": POOL})["id"],
        lab.admin("POST", "/subnets", {**place, "name": "private", "kind": "private", "cidr": PRIVATE})["id"],
    ]
    tiny = lab.admin("GET", f"/instance/plan/{lab.plan}")
    same = {name: tiny[name] for name in ("plan_group_id", "cpu_cores", "ram", "storage")}
    plan = lab.admin("POST", "/instance/plans", {**same, "name": "Addressed", "ipv6_prefixes": 1, "private_ipv4": 1})
    made = Pair(lab, plan["id"])
    yield made
    for instance in (made.client, made.server):
        lab.destroy(instance)
    lab.admin("DELETE", f"/instance/plan/{plan['id']}")
    for each in pools:
        lab.admin("DELETE", f"/subnet/{each}")


def first(prefix):
    return prefix.replace("::/64", "::1")


def test_guests_use_their_prefix_and_their_private_address_and_no_others(pair):
    """INS-72, INS-73: the guest has the first address of its prefix from its first boot on and may use the rest of it;
    nothing gets out from an address of another prefix, or from another private address."""
    [mine], [theirs] = pair.client["ipv6_prefixes"], pair.server["ipv6_prefixes"]
    own, there = first(mine["prefix"]), first(theirs["prefix"])
    another, foreign = own.replace("::1", "::1234:5678"), "fd77:0:0:77::1"
    private, there4 = (each["primary_private_ip"]["ip"] for each in (pair.client, pair.server))
    on_the_wire = f"ip -6 route add {POOL} dev eth0"
    pair.on(pair.server, on_the_wire)
    given = pair.on(pair.client, on_the_wire, "ip addr show dev eth0")
    assert (f"{own}/64" in given, f"{private}/29" in given) == (True, True)
    added = pair.on(
        pair.client,
        "echo 0 >/proc/sys/net/ipv6/conf/eth0/dad_transmits",
        *(f"ip -6 addr add {each}/128 dev eth0" for each in (another, foreign)),
        f"ip addr add {FOREIGN4}/29 dev eth0",
        "ip addr show dev eth0",
    )
    assert {f"{another}/128", f"{foreign}/128", f"{FOREIGN4}/29"} <= set(added)
    answers = pair.answered(
        (own, there), (another, there), (foreign, there), (private, there4), (FOREIGN4, there4), (own, there)
    )
    assert answers == ["yes", "yes", "no", "yes", "no", "yes"]
