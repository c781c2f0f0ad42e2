"""First-boot configuration: the platform's settings, overridden by the customer's."""

import json

import yaml

from panel.core.db import session
from panel.models import UserScript
from panel.services import instances
from worker.tasks import cloud_init
from worker.tasks.user_scripts import SCRIPTS_FOLDER

ARGUMENTS = {"hostname": "web.example.com", "ssh_keys": ["ssh-ed25519 AAAA a"], "timezone": None, "cloudcfg": None}


def build_user_data(password=None, **changes):
    return cloud_init.build_user_data({**ARGUMENTS, **changes}, password)


def test_user_data_with_keys_only_locks_password():
    """INS-54"""
    user_data = build_user_data()
    assert user_data["ssh_pwauth"] is False
    assert user_data["users"] == [{"name": "root", "lock_passwd": True, "ssh_authorized_keys": ["ssh-ed25519 AAAA a"]}]
    assert "chpasswd" not in user_data


def test_user_data_with_password_enables_password_login():
    user_data = build_user_data("s3cret pass")
    assert user_data["ssh_pwauth"] is True
    assert user_data["chpasswd"]["users"] == [{"name": "root", "password": "s3cret pass", "type": "text"}]


def test_customer_config_overrides_platform_settings():
    """INS-56, INS-57, INS-58"""
    customer_config = (
        "ssh_pwauth: false\ndisable_root: true\nusers:\n- default\n- {name: root, lock_passwd: true}\n- name: ada\n"
    )
    user_data = build_user_data("s3cret pass", cloudcfg=customer_config)
    assert (user_data["ssh_pwauth"], user_data["disable_root"]) == (False, True)
    root, *others = user_data["users"]
    assert (root["lock_passwd"], root["ssh_authorized_keys"]) == (True, ["ssh-ed25519 AAAA a"])
    assert others == ["default", {"name": "ada"}]


def test_password_locked_by_customer_config_is_not_set():
    """INS-58: setting it would unlock it."""
    locked = "users: [{name: root, lock_passwd: true}]"
    assert "chpasswd" not in build_user_data("s3cret pass", cloudcfg=locked)
    own = "chpasswd: {users: [{name: root, password: own}]}\n" + locked
    assert build_user_data("s3cret pass", cloudcfg=own)["chpasswd"] == {"users": [{"name": "root", "password": "own"}]}
    assert "chpasswd" in build_user_data("s3cret pass", cloudcfg="users: [default, {name: root, shell: /bin/sh}]")


def test_timezone_and_customer_config_are_passed_through():
    user_data = build_user_data(timezone="Asia/Tokyo", cloudcfg="runcmd:\n- [touch, /tmp/x]\nday: 2026-01-02")
    assert user_data["timezone"] == "Asia/Tokyo"
    assert user_data["runcmd"] == [["touch", "/tmp/x"]]
    assert user_data["day"] == "2026-01-02"


def test_seed_files_are_valid_json_and_yaml(cast):
    """Small guests read JSON, cloud-init reads YAML; characters beyond the basic plane must survive both."""
    instance = instances.find_by_id(cast.instance().id)
    seed = cloud_init.build_seed(instance, {**ARGUMENTS, "cloudcfg": "motd: 🚀"}, None, "task-id")
    head, body = seed.user_data.split("\n", 1)
    assert head == "#cloud-config"
    assert json.loads(body)["motd"] == yaml.safe_load(body)["motd"] == "🚀"
    assert json.loads(seed.meta_data) == {"instance-id": "task-id", "local-hostname": "web.example.com"}


def test_network_config_has_all_addresses_and_one_default_route_per_family(cast):
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


def test_user_scripts_run_after_customer_commands_in_order():
    """Shell scripts become files that cloud-init runs after `runcmd`; cloud-config scripts are merged."""
    customer_config = "runcmd: [echo own]\nwrite_files: [{path: /own}]\ntimezone: UTC"
    scripts = [
        build_script("#!/bin/sh\necho one"),
        build_script("#cloud-config\nruncmd: [echo two]\ntimezone: Asia/Tokyo\nlocale: de_DE.UTF-8"),
        build_script("packages: [nginx]", "cloud-init"),
        build_script("echo three"),
    ]
    user_data = cloud_init.build_user_data({**ARGUMENTS, "cloudcfg": customer_config}, None, scripts)
    assert user_data["runcmd"] == ["echo own", "echo two"]
    assert (user_data["timezone"], user_data["locale"], user_data["packages"]) == ("UTC", "de_DE.UTF-8", ["nginx"])
    customer_file, first_script, second_script = user_data["write_files"]
    assert customer_file == {"path": "/own"}
    assert (first_script["path"], first_script["content"]) == (
        f"{SCRIPTS_FOLDER}/user-script-01",
        "#!/bin/sh\necho one",
    )
    assert (second_script["path"], second_script["content"]) == (
        f"{SCRIPTS_FOLDER}/user-script-02",
        "#!/bin/sh\necho three",
    )
    assert {first_script["permissions"], second_script["permissions"]} == {"0700"}
    assert sorted(["runcmd", "user-script-01", "user-script-02"])[0] == "runcmd"


def build_user_data_with_image_config(config, password=None, **changes):
    return cloud_init.build_user_data({**ARGUMENTS, **changes}, password, image_config=config)


def test_image_config_is_overridden_by_customer_config():
    """VER-08: the image's values apply where the customer sets none. Lists are joined, the image's items first."""
    image_config = "package_update: true\nlocale: de_DE\nruncmd: [[prepare]]\npackages: [agent]\n"
    user_data = build_user_data_with_image_config(image_config, cloudcfg="locale: en_GB\nruncmd: [[mine]]\n")
    assert (user_data["package_update"], user_data["locale"]) == (True, "en_GB")
    assert user_data["runcmd"] == [["prepare"], ["mine"]]
    assert user_data["packages"] == ["agent"]
    assert build_user_data_with_image_config(None) == build_user_data()


def test_image_config_cannot_set_login_credentials():
    image_config = (
        "users: [{name: backdoor}]\nssh_pwauth: true\nchpasswd: {list: 'root:x'}\ndisable_root: true\nhostname: x\n"
    )
    assert build_user_data_with_image_config(image_config) == build_user_data()


def test_deploy_applies_image_cloud_config(cast, api_as, node, run_tasks):
    assert api_as("admin", "PUT", f"/api/v1/image/{cast.image.id}", json={"cloud_config": "a: [1"}).status_code == 422
    body = {"cloud_config": "package_upgrade: true\n"}
    assert api_as("admin", "PUT", f"/api/v1/image/{cast.image.id}", json=body).json["data"]["cloud_config"]
    instance = cast.instance()
    api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    assert yaml.safe_load(node.seed_of(instance.id).user_data)["package_upgrade"] is True
