"""Building images of micro VMs: API, task, limits, files."""

from hashlib import sha256

import pytest

from panel.core import context
from panel.core.db import session
from panel.models import Hypervisor, Member, Microvm, MicrovmImage, Task
from panel.services.microvms import image_builds
from tests.support.microvms import register_image
from tests.support.simulated_sandbox import HANG, simulated_sandbox  # noqa: F401  (fixture)
from tests.support.team import add_member  # noqa: F401  (fixture)
from worker.nodes.base import Power
from worker.sync import image_copies, microvm_image_files, node_sync
from worker.tasks import microvm_image_builds

COMMANDS = ["pip install flask", "mkdir /srv/app"]


@pytest.fixture(autouse=True)
def guest(simulated_sandbox, monkeypatch):
    monkeypatch.setattr(microvm_image_builds, "LOG_INTERVAL_SECONDS", 0.05)
    return simulated_sandbox


@pytest.fixture
def image_body(image, profile):
    return {"name": "web-app", "image_id": image.id, "commands": COMMANDS}


@pytest.fixture
def build_image(call_api, image_body, run_tasks):
    """Return a function that builds an image of the owner. It returns the row."""

    def build(**values):
        answer = call_api("POST", "images", **image_body | values)
        assert answer.status_code == 202, answer.json
        run_tasks()
        return session.get(MicrovmImage, answer.json["image"]["id"], populate_existing=True)

    return build


def show(call_api, image, caller="owner"):
    return call_api("GET", f"image/{image.id}", caller).json


def get_path(path):
    return context.current().config.data_dir / path


def list_files():
    return {path.name for path in get_path("images").glob("*microvm-*")}


def list_left(node, cast):
    """Return the machines, disks and open work that are left."""
    disks = [disk.name for disk in node.disks("default") if disk.name.startswith("m-")]
    waiting = session.query(Task).filter(Task.rollback_pending | Task.status.in_(("queued", "running"))).all()
    return [machine.id for machine in node.machines()], disks, [task.kind for task in waiting]


def test_image_is_built_from_commands(build_image, call_api, guest, image, node, cast):
    guest.answers[COMMANDS[0]] = ("Collecting flask\n\x1b[32mdone\x1b[0m\0\n", 0)
    image.envs = {"A": "source"}
    session.commit()
    built = build_image(envs={"MODE": "test"}, disk_gb=3, label="Web app")
    assert (built.status, built.label, built.account_id) == ("available", "Web app", cast.owner.id)
    assert guest.commands == [*COMMANDS, microvm_image_builds.CLEANUP_COMMAND]
    assert guest.identities[0]["env"] == {"A": "source", "MODE": "test"}
    assert guest.identities[0].keys() == {"access_token", "env", "entropy", "time"}, "names would be in the image"
    body = show(call_api, built)
    assert body["build"]["log"] == f"$ {COMMANDS[0]}\nCollecting flask\ndone\n$ {COMMANDS[1]}\n"
    assert (body["build"]["error"], body["build"]["source_id"]) == (None, image.id)
    assert (body["image"]["disk_gb"], body["image"]["min_disk_gb"], body["image"]["env_names"]) == (3, 3, ["A", "MODE"])
    assert '"test"' not in str(body)
    assert built.files_key not in ("", image.files_key)
    for kind in ("disk", "kernel", "initrd"):
        content = get_path(getattr(built, f"{kind}_path")).read_bytes()
        assert (len(content), sha256(content).hexdigest()) == (
            getattr(built, f"{kind}_size"),
            getattr(built, f"{kind}_sha256"),
        )
    assert list_left(node, cast) == ([], [], [])


def test_microvm_is_created_from_built_image(build_image, create_microvm, node):
    built = build_image()
    microvm = create_microvm(image_id=built.id)
    assert (microvm.state, microvm.boot["key"]) == ("running", built.files_key)
    assert f"{built.files_key}.qcow2" in {disk.name for disk in node.disks("default")}


def test_image_can_be_source_of_another(build_image):
    first = build_image()
    second = build_image(name="second", image_id=first.id)
    assert second.status == "available"
    assert second.kernel_sha256 == first.kernel_sha256
    assert second.kernel_path != first.kernel_path


def test_failed_command_ends_build_with_log(build_image, call_api, guest, node, cast):
    guest.answers[COMMANDS[0]] = ("no network\n", 4)
    failed = build_image()
    body = show(call_api, failed)
    assert body["image"]["status"] == "failed"
    assert (body["build"]["command_number"], body["build"]["exit_code"]) == (1, 4)
    assert body["build"]["error"] == "Command 1 ended with exit code 4: no network"
    assert body["build"]["log"].endswith("no network\n")
    assert guest.commands == COMMANDS[:1]
    assert list_left(node, cast) == ([], [], [])


def test_failed_image_is_built_again(build_image, call_api, guest, run_tasks):
    guest.answers[COMMANDS[0]] = ("", 1)
    failed = build_image()
    assert call_api("POST", "vms", image_id=failed.id, name="w", location_id=failed.build.group_id).status_code == 422
    guest.answers.clear()
    assert call_api("POST", f"image/{failed.id}/build").status_code == 202
    run_tasks()
    body = show(call_api, failed)
    assert (body["image"]["status"], body["build"]["error"], body["build"]["exit_code"]) == ("available", None, None)
    again = call_api("POST", f"image/{failed.id}/build")
    assert (again.status_code, again.json["reason"]) == (409, "not_failed")


@pytest.mark.parametrize("ending", ["cancelled", "deleted", "timeout"])
def test_build_that_is_given_up_leaves_nothing(
    build_image, call_api, guest, node, cast, api_as, monkeypatch, ending, image_body, run_tasks
):
    image_id = call_api("POST", "images", **image_body).json["image"]["id"]
    task = session.query(Task).filter_by(kind="microvm_image_build").one()

    def give_up():
        if ending == "cancelled":
            session.get(Task, task.id).cancel_requested_at = task.created_at
            session.commit()
        elif ending == "deleted":
            assert call_api("DELETE", f"image/{image_id}").status_code == 200

    if ending == "timeout":
        monkeypatch.setattr(image_builds, "MAX_BUILD_MINUTES", 0.01)
        guest.answers[COMMANDS[0]] = HANG
    else:
        guest.answers[COMMANDS[0]] = HANG
        original = microvm_image_builds.BuildLog.save

        def save(self, **values):
            if self.number and not getattr(self, "is_given_up", False):
                self.is_given_up = True
                give_up()
            original(self, **values)

        monkeypatch.setattr(microvm_image_builds.BuildLog, "save", save)
    run_tasks()
    session.expire_all()
    row = session.get(MicrovmImage, image_id)
    assert (row is None) == (ending == "deleted")
    if row:
        assert row.status == "failed"
        assert row.build.error
    microvm_image_files.sweep()
    assert bool(list_files()) == (row is not None)
    assert list_left(node, cast) == ([], [], [])


@pytest.mark.parametrize("answer", [lambda: 1 / 0, lambda: ("x" * 100, "zero")], ids=["ends", "no exit code"])
def test_guest_that_answers_wrongly_fails_build(build_image, call_api, guest, answer, node, cast):
    guest.answers[COMMANDS[1]] = answer
    failed = build_image()
    assert show(call_api, failed)["build"]["error"] == "The machine that builds the image does not answer."
    assert list_left(node, cast) == ([], [], [])


def test_log_and_output_are_bounded(build_image, call_api, guest, monkeypatch):
    monkeypatch.setattr(image_builds, "MAX_LOG_CHARACTERS", 1000)
    guest.answers[COMMANDS[0]] = ("line\n" * 1000, 0)
    built = build_image()
    assert len(show(call_api, built)["build"]["log"]) <= 1000
    monkeypatch.setattr(microvm_image_builds.sandbox_commands, "MAX_OUTPUT_BYTES", 1000)
    failed = build_image(name="second")
    assert show(call_api, failed)["build"]["error"] == "Command 1 wrote too much."


def test_file_larger_than_account_may_store_fails_build(build_image, call_api, monkeypatch, node, cast):
    monkeypatch.setattr(image_builds, "MAX_STORED_BYTES_PER_ACCOUNT", 10)
    failed = build_image()
    assert "take at most" in show(call_api, failed)["build"]["error"]
    assert list_left(node, cast) == ([], [], [])


def test_account_has_limits(build_image, call_api, image_body, monkeypatch):
    build_image()
    for name, value, reason in (
        ("MAX_IMAGES_PER_ACCOUNT", 1, "image_limit"),
        ("MAX_BUILDS_PER_ACCOUNT", 0, "build_limit"),
        ("MAX_STORED_BYTES_PER_ACCOUNT", 72, "image_storage_limit"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(image_builds, name, value)
            answer = call_api("POST", "images", **image_body | {"name": "second"})
            assert (answer.status_code, answer.json.get("reason")) == (422, reason)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "base"),
        ("name", "sandbox"),
        ("name", "Upper"),
        ("name", "-x"),
        ("name", "web-app"),
        ("commands", []),
        ("commands", [" "]),
        ("commands", ["x"] * 51),
        ("commands", ["x" * 4097]),
        ("image_id", "unknown"),
        ("location_id", "unknown"),
        ("disk_gb", 65),
        ("envs", {"": "x"}),
    ],
)
def test_wrong_input_names_its_field(build_image, call_api, image_body, field, value):
    build_image()
    answer = call_api("POST", "images", **{**image_body, "name": "second", field: value})
    assert (answer.status_code, [name.partition(".")[0] for name in answer.json["errors"]]) == (422, [field])


def test_location_without_room_is_refused(call_api, image_body, profile):
    profile.max_memory_mb = 100
    session.commit()
    answer = call_api("POST", "images", **image_body)
    assert (answer.status_code, answer.json["reason"]) == (422, "no_microvm_node")
    assert answer.json["message"] == "No location has room at the moment."
    profile.enabled = False
    session.commit()
    answer = call_api("POST", "images", **image_body)
    assert answer.json["message"] == "No hypervisor takes micro VMs at the moment."


def test_running_build_takes_capacity(call_api, image_body, profile, microvm_body, run_tasks, cast):
    profile.max_microvms = 1
    session.commit()
    assert call_api("POST", "images", **image_body).status_code == 202
    node = session.get(Hypervisor, cast.node.id, populate_existing=True)
    session.refresh(node, ["allocated_ram", "allocated_storage"])
    assert (node.allocated_ram, node.allocated_storage) == (512, 4)
    assert call_api("POST", "vms", **microvm_body).json["reason"] == "no_microvm_node"
    run_tasks()
    session.refresh(node, ["allocated_ram", "allocated_storage"])
    assert (node.allocated_ram, node.allocated_storage) == (0, 0)
    assert call_api("POST", "vms", **microvm_body).status_code == 200


def test_machine_of_build_is_not_unmanaged(build_image, call_api, image_body, guest, cast, run_tasks):
    unmanaged = []

    def reconcile():
        unmanaged.append(list(session.get(Hypervisor, cast.node.id).unmanaged_machines))
        return "", 0

    original = microvm_image_builds.execute_commands

    def execute(work, row):
        assert work.node.power(row.id) is Power.on
        node_sync.reconcile(cast.node.id)
        reconcile()
        original(work, row)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(microvm_image_builds, "execute_commands", execute)
        build_image()
    assert unmanaged == [[]]


def test_image_in_use_is_not_deleted(build_image, call_api, create_microvm, node, run_tasks):
    built = build_image()
    microvm = create_microvm(image_id=built.id)
    answer = call_api("DELETE", f"image/{built.id}")
    assert (answer.status_code, answer.json["reason"]) == (409, "image_in_use")
    assert call_api("DELETE", f"vm/{microvm.id}").status_code == 200
    run_tasks()
    assert call_api("DELETE", f"image/{built.id}").status_code == 200
    run_tasks()
    assert list_files() == set()
    key = built.files_key
    image_copies.sweep_node(session.query(Microvm).one().hypervisor_id)
    assert [disk.name for disk in node.disks("default") if disk.name.startswith(key)] == []


def test_deleted_image_leaves_files_of_others(build_image, call_api, image, run_tasks):
    first = build_image()
    second = build_image(name="second", image_id=first.id)
    assert call_api("DELETE", f"image/{first.id}").status_code == 200
    run_tasks()
    for row in (second, image):
        assert all(get_path(path).exists() for path in (row.disk_path, row.kernel_path, row.initrd_path))
    assert show(call_api, second)["build"]["source_id"] is None


def test_source_of_running_build_is_not_deleted(build_image, call_api, image_body):
    first = build_image()
    assert call_api("POST", "images", **image_body | {"name": "second", "image_id": first.id}).status_code == 202
    assert call_api("DELETE", f"image/{first.id}").json["reason"] == "image_in_use"


def test_replaced_source_does_not_change_built_image(build_image):
    built = build_image()
    register_image(version=b"2")
    content = get_path(built.kernel_path).read_bytes()
    assert sha256(content).hexdigest() == built.kernel_sha256


def test_image_is_changed(build_image, call_api):
    built = build_image(disk_gb=3)
    changes = {"name": "renamed", "label": "Renamed", "memory_mb": 1024, "cpu_cores": 2}
    answer = call_api("PATCH", f"image/{built.id}", **changes)
    assert {name: answer.json["image"][name] for name in changes} == changes
    for field, value in (("disk_gb", 2), ("name", "base"), ("name", "Upper")):
        answer = call_api("PATCH", f"image/{built.id}", **{field: value})
        assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_platform_image_is_shown_and_not_changed(call_api, image):
    assert call_api("GET", f"image/{image.id}").json["build"] is None
    assert call_api("PATCH", f"image/{image.id}", label="x").status_code == 404
    assert call_api("DELETE", f"image/{image.id}").status_code == 404
    assert call_api("POST", f"image/{image.id}/build").status_code == 404


def test_foreign_image_is_not_found(build_image, call_api, image_body):
    built = build_image()
    for method, path, body in (
        ("GET", "", {}),
        ("PATCH", "", {"label": "x"}),
        ("DELETE", "", {}),
        ("POST", "/build", {}),
    ):
        assert call_api(method, f"image/{built.id}{path}", "outsider", **body).status_code == 404
    assert built.id not in str(call_api("GET", "images", "outsider").json)
    answer = call_api("POST", "images", "outsider", **image_body | {"image_id": built.id})
    assert list(answer.json["errors"]) == ["image_id"]
    assert call_api("POST", "images", "outsider", **image_body).status_code == 202, "names are the account's own"


def test_restricted_member_reaches_only_own_images(build_image, call_api, image_body, add_member):
    of_owner = build_image()
    add_member("chooser", ["microvm.view", "microvm.manage", "microvm.delete"], "chosen")
    assert call_api("GET", f"image/{of_owner.id}", "chooser").status_code == 404
    assert call_api("DELETE", f"image/{of_owner.id}", "chooser").status_code == 404
    own = call_api("POST", "images", "chooser", **image_body | {"name": "own"}).json["image"]["id"]
    assert call_api("GET", f"image/{own}", "chooser").status_code == 200


def test_owner_chooses_images_for_a_member(build_image, call_api, create_microvm, add_member, api_as, image, run_tasks):
    chosen, other = build_image(), build_image(name="other")
    member = add_member("chooser", ["microvm.view", "microvm.manage", "microvm.delete"], "chosen")
    path = f"/api/team/subuser/{member.id}/role"
    for ids in ([image.id], ["unknown"]):
        refused = api_as("owner", "PATCH", path, json={"reach": "chosen", "resource_ids": ids})
        assert (refused.status_code, list(refused.json["errors"])) == (422, ["resource_ids"])
    body = {"reach": "chosen", "resource_ids": [chosen.id]}
    assert api_as("owner", "PATCH", path, json=body).status_code == 200
    assert {row["name"] for row in call_api("GET", "images", "chooser").json["data"]} == {"sandbox", "web-app"}
    assert call_api("GET", f"image/{other.id}", "chooser").status_code == 404
    assert call_api("DELETE", f"image/{chosen.id}", "chooser").status_code == 200
    assert session.get(Member, member.id, populate_existing=True).resource_ids == []


def test_account_with_images_is_not_deleted(build_image, api_as, cast):
    build_image()
    answer = api_as("admin", "DELETE", f"/api/v1/user/{cast.owner.id}")
    assert answer.status_code == 409
    assert "1 micro VM image" in answer.json["message"]


def test_list_has_constant_number_of_queries(build_image, call_api, queries):
    build_image()
    counts = []
    for number in range(2):
        queries.clear()
        assert call_api("GET", "images").json["total"] == 2 + number
        counts.append(len(queries))
        build_image(name=f"more-{number}")
    assert counts[0] == counts[1]
