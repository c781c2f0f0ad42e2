"""The network of micro VMs: addresses, what the operator allows, and what their owners choose."""

import pytest

from panel.core.db import session
from panel.models import Microvm, MicrovmProfile, Task
from panel.services import hypervisors, subnets
from panel.services.microvms import profiles, read
from worker.sandbox_router import channels
from worker.tasks import microvm_network

PUBLIC, OTHER = "8.8.8.8", "9.9.9.9"
NO_INTERNET = "no_internet_access"
OWN_CHOICE = "It is turned off for this micro VM."
NOT_OFFERED = "The operator does not offer it to this micro VM."


@pytest.fixture
def connected(profile):
    """The profile, which allows internet access."""
    profiles.update(profile, allows_internet_access=True)
    session.commit()
    return profile


@pytest.fixture
def microvm(connected, create_microvm):
    """A running micro VM with internet access."""
    microvm = create_microvm(allow_internet_access=True)
    assert microvm.state == "running"
    return microvm


@pytest.fixture
def reached(node):
    """Return a function that lists which of two public addresses a micro VM may send to."""
    return lambda microvm: [address for address in (PUBLIC, OTHER) if node.can_send(microvm.id, address)]


def refresh(profile):
    microvm_network.refresh(profile.hypervisor_id)


def test_fresh_profile_allows_no_internet_access(call_api, create_microvm, microvm_body, node, api_as):
    plain = create_microvm()
    assert (plain.address, node.get_nics(plain.id)) == (None, [])
    assert call_api("GET", f"vm/{plain.id}").json["vm"]["internet_access"] is False
    for name, value in (("allow_internet_access", True), ("allow_out", [PUBLIC])):
        answer = call_api("POST", "vms", **microvm_body, **{name: value})
        assert (answer.status_code, answer.json["reason"], list(answer.json["errors"])) == (422, NO_INTERNET, [name])
        answer = call_api("PATCH", f"vm/{plain.id}", **{name: value})
        assert (answer.status_code, answer.json["reason"], list(answer.json["errors"])) == (422, NO_INTERNET, [name])
    assert call_api("PATCH", f"vm/{plain.id}", deny_out=[PUBLIC]).json["vm"]["deny_out"] == [f"{PUBLIC}/32"]
    (location,) = call_api("GET", "catalog").json["locations"]
    assert location["internet_access"] is False


def test_allowed_micro_vm_gets_one_filtered_interface(call_api, microvm, node, reached):
    shown = call_api("GET", f"vm/{microvm.id}").json["vm"]
    assert (shown["internet_access"], shown["allow_out"], shown["deny_out"]) == (True, [], [])
    (nic,) = node.get_nics(microvm.id)
    assert (nic["mac"], nic["addresses"], nic["network"]) == (microvm.mac, ["100.96.0.2"], "sandboxes")
    assert (nic["mail"], nic["allowed"], nic["prefixes"]) == (False, None, [])
    assert reached(microvm) == [PUBLIC, OTHER]
    assert not any(node.can_send(microvm.id, address) for address in ("10.0.0.1", "100.96.0.1", "100.96.0.3"))
    (location,) = call_api("GET", "catalog").json["locations"]
    assert location["internet_access"] is True


def test_addresses_are_unique_and_free_again(connected, create_microvm, request_action, run_tasks):
    first, second = create_microvm(), create_microvm()
    assert [first.address, second.address] == ["100.96.0.2", "100.96.0.3"]
    request_action(first, "destroy")
    assert create_microvm().address == "100.96.0.4", "it is in use until nothing is left on the node"
    run_tasks()
    assert create_microvm().address == "100.96.0.2"


def test_range_without_free_address_is_full(connected, create_microvm, call_api, microvm_body):
    profiles.update(connected, address_range="10.50.0.0/28")
    session.commit()
    assert [create_microvm().address for _ in range(13)][-1] == "10.50.0.14"
    answer = call_api("POST", "vms", **microvm_body)
    assert (answer.status_code, answer.json["reason"]) == (422, "no_microvm_node")


def test_owner_changes_rules_of_running_micro_vm(call_api, microvm, run_tasks, reached):
    for changes, expected in (
        ({"allow_internet_access": False}, []),
        ({"allow_out": [PUBLIC, "10.0.0.0/8"]}, [PUBLIC]),
        ({"allow_internet_access": True, "deny_out": ["8.0.0.0/7"], "allow_out": []}, []),
        ({"deny_out": ["8.8.8.0/24"]}, [OTHER]),
        ({"deny_out": []}, [PUBLIC, OTHER]),
    ):
        assert call_api("PATCH", f"vm/{microvm.id}", **changes).status_code == 200
        run_tasks()
        assert reached(microvm) == expected, changes


def test_rules_apply_to_paused_and_stopped_micro_vms(call_api, microvm, request_action, run_tasks, reached):
    for before, after in (("pause", "resume"), ("stop", "start")):
        request_action(microvm, before)
        run_tasks()
        is_allowed = not session.get(Microvm, microvm.id, populate_existing=True).allow_internet_access
        assert call_api("PATCH", f"vm/{microvm.id}", allow_internet_access=is_allowed).status_code == 200
        run_tasks()
        assert reached(microvm) == ([PUBLIC, OTHER] if is_allowed else [])
        request_action(session.get(Microvm, microvm.id), after)
        run_tasks()
        assert reached(microvm) == ([PUBLIC, OTHER] if is_allowed else [])


def test_changes_before_the_task_make_one_task(call_api, microvm):
    for denied in ([PUBLIC], [OTHER], []):
        assert call_api("PATCH", f"vm/{microvm.id}", deny_out=denied).status_code == 200
    assert session.query(Task).filter_by(kind="microvm_network_apply").count() == 1


def test_failed_update_is_shown(call_api, microvm, node, run_tasks):
    node.fault("update_nics", "refuse", 1)
    call_api("PATCH", f"vm/{microvm.id}", allow_internet_access=False)
    run_tasks()
    shown = call_api("GET", f"vm/{microvm.id}").json["vm"]
    assert shown["error"].startswith("The network could not be updated.")
    assert shown["state"] == "running"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("allow_out", ["example.com"]),
        ("allow_out", ["2001:db8::/32"]),
        ("allow_out", "8.8.8.8"),
        ("deny_out", ["*.example.com"]),
        ("deny_out", ["8.8.8.8/33"]),
        ("deny_out", [f"8.8.{number}.1" for number in range(101)]),
    ],
)
def test_invalid_networks_are_refused(call_api, microvm_body, connected, name, value):
    answer = call_api("POST", "vms", **microvm_body, **{name: value})
    assert (answer.status_code, [key.split(".")[0] for key in answer.json["errors"]]) == (422, [name])


def test_operator_turns_access_off_and_on(connected, microvm, reached, api_as, call_api):
    path = f"/api/v1/microvm/profile/{connected.id}"
    assert api_as("admin", "PATCH", path, json={"allows_internet_access": False}).status_code == 200
    refresh(connected)
    assert reached(microvm) == []
    assert call_api("GET", f"vm/{microvm.id}").json["vm"]["internet_access"] is False
    api_as("admin", "PATCH", path, json={"allows_internet_access": True, "refused_networks": [OTHER]})
    refresh(connected)
    assert reached(microvm) == [PUBLIC]


def test_platform_is_refused(connected, microvm, cast, node, monkeypatch, change_config):
    names = {"panel.example.com": ["31.0.0.7"], "api.sbx.example.com": ["31.0.0.8"], "node-2.example.com": ["31.0.0.9"]}
    names["router.example.com"] = ["31.0.0.10"]
    monkeypatch.setattr(microvm_network, "resolve", lambda *some: [ip for name in some for ip in names.get(name, [])])
    monkeypatch.setattr(microvm_network, "list_own_addresses", lambda: ["31.0.0.6"])
    change_config(public_url="https://panel.example.com", sandbox_domain="sbx.example.com:8443")
    change_config(sandbox_url="https://router.example.com")
    subnets.create(cast.location, name="customers", cidr="33.0.0.0/24")
    hypervisors.create(
        cast.location,
        name="node-2",
        driver="libvirt",
        uri="qemu+ssh://root@node-2.example.com/system",
        storage_path="/d",
    )
    session.commit()
    refresh(connected)
    assert set(node.find_sandbox_network().refused) >= {
        *("31.0.0.6/31", "31.0.0.8/31"),  # merged
        "31.0.0.10/32",
        "33.0.0.0/24",
    }
    assert node.can_send(microvm.id, "31.0.0.5")


def test_remote_node_is_not_taken_for_this_machine(monkeypatch, rolled_back_app):
    monkeypatch.setattr(microvm_network, "list_own_addresses", lambda: ["31.0.0.6"])
    remote = microvm_network.list_platform_addresses("qemu+ssh://root@32.0.0.1/system")
    assert "31.0.0.6" not in remote
    assert "31.0.0.6" in microvm_network.list_platform_addresses("qemu:///system")


def test_node_that_does_not_answer_is_refreshed_later(connected, microvm, node, reached):
    profiles.update(connected, allows_internet_access=False)
    session.commit()
    node.fault("ensure_sandbox_network", "refuse", 1)
    refresh(connected)
    assert reached(microvm) == [PUBLIC, OTHER]
    refresh(connected)
    assert reached(microvm) == []


def test_all_connected_nodes_are_refreshed(connected, microvm, monkeypatch):
    calls = []
    monkeypatch.setattr(microvm_network.jobs, "enqueue_call", lambda *call: calls.append(call))
    microvm_network.refresh_networks()
    assert calls == [("worker.tasks.microvm_network.refresh", connected.hypervisor_id)]


def test_node_with_internet_access_is_preferred(connected, cast, create_microvm, call_api, microvm_body):
    other = hypervisors.create(
        cast.location, name="node-0", driver="simulated", uri="simulated://?cores=64", storage_path="/srv", max_tasks=8
    )
    other.status, other.cpu_cores, other.memory_mb = "up", 64, 10**6
    other.storages[0].capacity = other.storages[0].free = 10**13
    profiles.create(hypervisor_id=other.id)
    session.commit()
    created = call_api("POST", "vms", **microvm_body, allow_internet_access=True).json["vm"]
    assert session.get(Microvm, created["id"]).hypervisor_id == connected.hypervisor_id


def test_guest_gets_its_settings_with_the_identity(connected, microvm, create_microvm):
    route = read.find_route(microvm.sandbox_id)
    assert channels.build_identity(route)["network"] == {
        "address": "100.96.0.2/16",
        "gateway": "100.96.0.1",
        "nameservers": ("1.1.1.1", "9.9.9.9"),
    }
    profiles.update(connected, allows_internet_access=False)
    session.commit()
    assert "network" not in channels.build_identity(read.find_route(create_microvm().sandbox_id))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("address_range", "8.8.0.0/16"),
        ("address_range", "10.0.0.0/8"),
        ("address_range", "10.0.0.0/30"),
        ("address_range", "10.0.0.1/16"),
        ("address_range", "fd00::/64"),
        ("address_range", "10.77.0.0/24"),
        ("nameservers", ["10.0.0.53"]),
        ("nameservers", ["2001:4860:4860::8888"]),
        ("nameservers", ["1.1.1.1"] * 4),
        ("refused_networks", ["panel.example.com"]),
    ],
)
def test_impossible_settings_of_profile_are_refused(api_as, cast, profile, name, value):
    subnets.create(cast.location, name="private", cidr="10.77.0.0/28", kind="private")
    session.commit()
    answer = api_as("admin", "PATCH", f"/api/v1/microvm/profile/{profile.id}", json={name: value})
    assert (answer.status_code, [key.split(".")[0] for key in answer.json["errors"]]) == (422, [name])


def test_range_in_use_stays(api_as, connected, microvm, request_action, run_tasks):
    path = f"/api/v1/microvm/profile/{connected.id}"
    answer = api_as("admin", "PATCH", path, json={"address_range": "10.50.0.0/16"})
    assert (answer.status_code, answer.json["reason"]) == (409, "has_microvms")
    assert api_as("admin", "PATCH", path, json={"address_range": "100.96.0.0/16"}).status_code == 200
    request_action(session.get(Microvm, microvm.id), "destroy")
    run_tasks()
    changed = api_as("admin", "PATCH", path, json={"address_range": "10.50.0.0/16"}).json["data"]
    assert (changed["address_range"], changed["nameservers"]) == ("10.50.0.0/16", ["1.1.1.1", "9.9.9.9"])


@pytest.mark.usefixtures("connected")
def test_list_takes_constant_number_of_queries(call_api, create_microvm, queries):
    counts = []
    for _ in range(2):
        create_microvm()
        queries.clear()
        assert call_api("GET", "vms").json["data"][0]["internet_access"] is False
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_pages_offer_and_show_internet_access(browser_as, connected, microvm_body, run_tasks, reached):
    browser = browser_as("owner")
    assert "allow_internet_access" in browser.get("/microvms/new").text
    answer = browser.post("/microvms/new", data={**microvm_body, "on_timeout": "kill", "allow_internet_access": "true"})
    assert answer.status_code == 303
    run_tasks()
    microvm = session.query(Microvm).one()
    path = f"/microvms/{microvm.id}"
    for action, text, expected in (
        ("off", "Turn internet access on", []),
        ("on", "Turn internet access off", [PUBLIC, OTHER]),
    ):
        assert browser.post(f"{path}/internet/{action}").status_code == 303
        page = browser.get(path).text
        assert "Internet access: change requested." in page
        assert f"Turning {action} …" in page
        run_tasks()
        page = browser.get(path).text
        assert (text in page, "Turning o" in page) == (True, False)
        assert reached(microvm) == expected
    assert "100.96.0.2" in browser_as("admin").get(f"/admin/microvms/{microvm.id}").text


def test_pages_show_reasons_of_internet_access_that_is_off(browser_as, connected, create_microvm, api_as):
    unasked, asked = create_microvm(), create_microvm(allow_internet_access=True)

    def find_reasons(microvm):
        pages = (
            browser_as("owner").get(f"/microvms/{microvm.id}"),
            browser_as("admin").get(f"/admin/microvms/{microvm.id}"),
        )
        return [(OWN_CHOICE in page.text, NOT_OFFERED in page.text) for page in pages]

    assert find_reasons(unasked) == [(True, False)] * 2
    assert find_reasons(asked) == [(False, False)] * 2
    profiles.update(connected, allows_internet_access=False)
    session.commit()
    session.expire_all()
    assert find_reasons(asked) == [(False, True)] * 2


def test_page_shows_failed_change_of_internet_access(browser_as, microvm, node, run_tasks, reached):
    browser, path = browser_as("owner"), f"/microvms/{microvm.id}"
    node.fault("update_nics", "refuse", 1)
    browser.post(f"{path}/internet/off")
    run_tasks()
    page = browser.get(path).text
    assert "The network could not be updated." in page
    assert "This change failed." in page
    assert reached(microvm) == [PUBLIC, OTHER]
    assert page.count(f'action="{path}/internet/off"') == 1
    browser.post(f"{path}/internet/off")
    run_tasks()
    assert "This change failed." not in browser.get(path).text
    assert reached(microvm) == []


def test_pages_without_internet_access(browser_as, cast, profile, create_microvm):
    browser = browser_as("owner")
    assert "allow_internet_access" not in browser.get("/microvms/new").text
    page = browser.get(f"/microvms/{create_microvm().id}").text
    assert "Internet access" in page
    assert "Turn internet access" not in page
    assert NOT_OFFERED in page


def test_profile_form_sets_the_network(browser_as, cast):
    browser, path = browser_as("admin"), "/admin/microvms/hypervisors"
    assert "100.96.0.0/16" in browser.get(f"{path}/new").text
    data = {"hypervisor_id": cast.node.id, "max_microvms": "0", "max_memory_mb": "0", "enabled": "true"}
    data |= {"allows_internet_access": "true", "address_range": "10.50.0.0/16", "nameservers": "8.8.8.8\r\n8.8.4.4"}
    assert browser.post(f"{path}/new", data={**data, "refused_networks": "31.0.0.0/24"}).status_code == 303
    profile = session.query(MicrovmProfile).one()
    assert (profile.allows_internet_access, profile.address_range) == (True, "10.50.0.0/16")
    assert (profile.nameservers, profile.refused_networks) == (["8.8.8.8", "8.8.4.4"], ["31.0.0.0/24"])
    assert "31.0.0.0/24" in browser.get(f"{path}/{profile.id}").text
