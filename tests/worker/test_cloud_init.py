"""First-boot configuration: the platform's settings, with the customer's own on top."""

import json

import yaml

from panel.core.db import session
from panel.models import UserScript
from panel.services import instances
from worker.tasks import cloud_init
from worker.tasks.user_scripts import SCRIPTS_FOLDER

ARGUMENTS = {"hostname": "web.example.com", "ssh_keys": ["ssh-ed25519 AAAA a"], "timezone": None, "cloudcfg": None}


def user_data(password=None, **changes):
    return cloud_init.build_user_data({**ARGUMENTS, **changes}, password)


def test_keys_without_a_password_lock_the_password():
    """INS-54"""
    made = user_data()
    assert made["ssh_pwauth"] is False
    assert made["users"] == [{"name": "root", "lock_passwd": True, "ssh_authorized_keys": ["ssh-ed25519 AAAA a"]}]
    assert "chpasswd" not in made


def test_a_password_opens_the_password():
    made = user_data("s3cret pass")
    assert made["ssh_pwauth"] is True
    assert made["chpasswd"]["users"] == [{"name": "root", "password": "s3cret pass", "type": "text"}]


def test_what_the_customer_wrote_wins():
    """INS-56, INS-57, INS-58"""
    theirs = (
        "ssh_pwauth: false\ndisable_root: true\nusers:\n- default\n- {name: root, lock_passwd: true}\n- name: ada\n"
    )
    made = user_data("s3cret pass", cloudcfg=theirs)
    assert (made["ssh_pwauth"], made["disable_root"]) == (False, True)
    root, *rest = made["users"]
    assert (root["lock_passwd"], root["ssh_authorized_keys"]) == (True, ["ssh-ed25519 AAAA a"])
    assert rest == ["default", {"name": "ada"}]


def test_a_password_that_the_customer_locks_is_not_set():
    """INS-58: setting it would unlock it."""
    locked = "users: [{name: root, lock_passwd: true}]"
    assert "chpasswd" not in user_data("s3cret pass", cloudcfg=locked)
    own = "chpasswd: {users: [{name: root, password: own}]}\n" + locked
    assert user_data("s3cret pass", cloudcfg=own)["chpasswd"] == {"users": [{"name": "root", "password": "own"}]}
    assert "chpasswd" in user_data("s3cret pass", cloudcfg="users: [default, {name: root, shell: /bin/sh}]")


def test_the_time_zone_and_further_settings_pass_through():
    made = user_data(timezone="Asia/Tokyo", cloudcfg="runcmd:\n- [touch, /tmp/x]\nday: 2026-01-02")
    assert made["timezone"] == "Asia/Tokyo"
    assert made["runcmd"] == [["touch", "/tmp/x"]]
    assert made["day"] == "2026-01-02"


def test_the_files_are_json_and_yaml(cast):
    """Small guests read JSON, cloud-init reads YAML; characters beyond the basic plane must survive both."""
    instance = instances.find_by_id(cast.instance().id)
    made = cloud_init.build_seed(instance, {**ARGUMENTS, "cloudcfg": "motd: 🚀"}, None, "task-id")
    head, body = made.user_data.split("\n", 1)
    assert head == "#cloud-config"
    assert json.loads(body)["motd"] == yaml.safe_load(body)["motd"] == "🚀"
    assert json.loads(made.meta_data) == {"instance-id": "task-id", "local-hostname": "web.example.com"}


def test_the_network_has_every_address_and_one_default_route_a_family(cast):
    instance = instances.find_by_id(cast.instance().id)
    session.refresh(instance)
    network = cloud_init.build_network_config(instance)
    nic = network["ethernets"]["nic0"]
    assert nic["match"] == {"macaddress": instance.interfaces[0].mac}
    assert nic["addresses"] == ["10.9.0.2/24", "fd99::2/64"]
    assert nic["routes"] == [{"to": "0.0.0.0/0", "via": "10.9.0.1"}, {"to": "::/0", "via": "fd99::1"}]
    assert nic["nameservers"] == {"addresses": ["10.9.0.1"]}


def build_script(content, kind="sh"):
    return UserScript(type=kind, content=content, shebang="")


def test_scripts_run_after_the_customers_own_commands_in_their_order():
    """Programs are files that cloud-init runs after `runcmd`; what they say of themselves is joined."""
    theirs = "runcmd: [echo own]\nwrite_files: [{path: /own}]\ntimezone: UTC"
    scripts = [
        build_script("#!/bin/sh\necho one"),
        build_script("#cloud-config\nruncmd: [echo two]\ntimezone: Asia/Tokyo\nlocale: de_DE.UTF-8"),
        build_script("packages: [nginx]", "cloud-init"),
        build_script("echo three"),
    ]
    made = cloud_init.build_user_data({**ARGUMENTS, "cloudcfg": theirs}, None, scripts)
    assert made["runcmd"] == ["echo own", "echo two"]
    assert (made["timezone"], made["locale"], made["packages"]) == ("UTC", "de_DE.UTF-8", ["nginx"])
    own, first, second = made["write_files"]
    assert own == {"path": "/own"}
    assert (first["path"], first["content"]) == (f"{SCRIPTS_FOLDER}/user-script-01", "#!/bin/sh\necho one")
    assert (second["path"], second["content"]) == (f"{SCRIPTS_FOLDER}/user-script-02", "#!/bin/sh\necho three")
    assert {first["permissions"], second["permissions"]} == {"0700"}
    assert sorted(["runcmd", "user-script-01", "user-script-02"])[0] == "runcmd"


def user_data_with_image_config(config, password=None, **changes):
    return cloud_init.build_user_data({**ARGUMENTS, **changes}, password, image_config=config)


def test_an_images_own_configuration_lies_under_the_customers():
    """VER-08: what the image says counts where the customer says nothing; lists of both count, the image's first."""
    image = "package_update: true\nlocale: de_DE\nruncmd: [[prepare]]\npackages: [agent]\n"
    made = user_data_with_image_config(image, cloudcfg="locale: en_GB\nruncmd: [[mine]]\n")
    assert (made["package_update"], made["locale"]) == (True, "en_GB")
    assert made["runcmd"] == [["prepare"], ["mine"]]
    assert made["packages"] == ["agent"]
    assert user_data_with_image_config(None) == user_data()


def test_an_image_lets_nobody_in():
    image = "users: [{name: backdoor}]\nssh_pwauth: true\nchpasswd: {list: 'root:x'}\ndisable_root: true\nhostname: x\n"
    assert user_data_with_image_config(image) == user_data()


def test_a_deploy_reads_the_images_configuration(cast, api_as, node, run_tasks):
    assert api_as("admin", "PUT", f"/api/v1/image/{cast.image.id}", json={"cloud_config": "a: [1"}).status_code == 422
    body = {"cloud_config": "package_upgrade: true\n"}
    assert api_as("admin", "PUT", f"/api/v1/image/{cast.image.id}", json=body).json["data"]["cloud_config"]
    instance = cast.instance()
    api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    assert yaml.safe_load(node.seed_of(instance.id).user_data)["package_upgrade"] is True
