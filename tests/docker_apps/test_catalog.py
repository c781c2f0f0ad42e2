"""The catalog of container apps, and port mappings in compose files (OTH-10)."""

import re

import pytest
import yaml

from panel.core.errors import Invalid, NotFound
from panel.services import docker_apps

VARIABLE_PATTERN = re.compile(r"\$\{(\w+)[^}]*\}|\$(\w+)")
SERVICE_KEYS = {"image", "restart", "ports", "environment", "volumes", "depends_on", "command"}
CUSTOM_COMPOSE_FILE = """\
x-logging: &common
  restart: on-failure
services:
  web:
    <<: *common
    image: busybox:1
    ports:
      - "8080:80"
      - target: 443
        published: 8443
    hostname: 22:22
    privileged: on
    read_only:
    user: '1000'
    name: !!str 80
  voice:
    <<: *common
    image: busybox:1
    expose: ["9000-9010/udp", "7000"]
volumes:
  data:
"""


def fill_required_variables(app):
    """Return a value for each required variable."""
    return {variable.name: "given" for variable in app.variables if variable.required}


def build_mapping(container, host, protocol=None):
    return {"container_port": container, "host_port": host} | ({"protocol": protocol} if protocol else {})


def parse_services(text):
    return yaml.safe_load(text)["services"]


def assert_refused(call, *args):
    with pytest.raises(Invalid) as refusal:
        call(*args)
    [field] = refusal.value.fields
    return field, " ".join(refusal.value.fields[field])


# --- the catalog


def test_catalog_is_sorted_by_name():
    apps = docker_apps.listing()
    names = [app.name.lower() for app in apps]
    assert names == sorted(set(names))
    assert len(apps) >= 12
    assert {"nginx", "wordpress", "nextcloud", "postgresql"} <= {app.slug for app in apps}
    assert all(docker_apps.get(app.slug) is app for app in apps)
    for slug in ("none", "", "../nginx", "custom"):
        with pytest.raises(NotFound):
            docker_apps.get(slug)


@pytest.mark.parametrize("app", docker_apps.listing(), ids=lambda app: app.slug)
def test_catalog_app_is_valid(app):
    text, environment = docker_apps.render_compose_file(app, fill_required_variables(app), [])
    content = yaml.safe_load(text)
    assert set(content) <= {"services", "volumes"}
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*", app.slug)
    assert app.slug != "custom"
    for sentence in (app.name, app.category, app.description):
        assert sentence.strip() == sentence
        assert len(sentence) <= 180
    used = {name for groups in VARIABLE_PATTERN.findall(text) for name in groups if name}
    assert used == {variable.name for variable in app.variables} == set(environment)
    named = {volume.split(":")[0] for service in content["services"].values() for volume in service.get("volumes", ())}
    assert {name for name in named if not name.startswith("/")} == set(content.get("volumes", {}))
    for service in content["services"].values():
        assert set(service) <= SERVICE_KEYS
        assert service["restart"] == "unless-stopped"
        assert re.fullmatch(r"([a-z0-9-]+/)?[a-z0-9-]+:v?\d+\.\d+[\w.-]*", service["image"])
        assert set(service.get("depends_on", ())) <= set(content["services"])
        assert all(isinstance(value, str) for value in service.get("environment", {}).values())
    assert app.ports
    assert len({(port.host_port, port.protocol) for port in app.ports}) == len(app.ports)
    for name, service in content["services"].items():
        assert ("ports" in service) == (name == app.service)
    assert app.images == tuple(service["image"] for service in content["services"].values())


@pytest.mark.parametrize("app", docker_apps.listing(), ids=lambda app: app.slug)
def test_missing_secrets_are_generated_per_deployment(app):
    first, second = (docker_apps.render_compose_file(app, fill_required_variables(app), [])[1] for _ in range(2))
    for variable in app.variables:
        if variable.generate:
            assert re.fullmatch(r"[A-Za-z0-9]+", first[variable.name])
            assert len(first[variable.name]) == variable.generate
            assert first[variable.name] != second[variable.name]
        elif variable.required:
            assert first[variable.name] == "given"
        else:
            assert first[variable.name] == (variable.default or "")
        own_file = docker_apps.render_compose_file(
            app, fill_required_variables(app) | {variable.name: "mine $x 'y\""}, []
        )[1]
        assert own_file[variable.name] == "mine $x 'y\""
    if fill_required_variables(app):
        needed = sorted(variable.name for variable in app.variables if variable.required and not variable.default)
        field, sentence = assert_refused(docker_apps.render_compose_file, app, {}, [])
        assert field == "env_variables"
        assert [name for name in needed if name in sentence] == needed


@pytest.mark.parametrize("app", docker_apps.listing(), ids=lambda app: app.slug)
def test_catalog_app_ports_are_remapped(app):
    mappings = [
        build_mapping(port.container_port, 30000 + number, port.protocol) for number, port in enumerate(app.ports)
    ]
    text, _ = docker_apps.render_compose_file(app, fill_required_variables(app), mappings)
    plain, _ = docker_apps.render_compose_file(app, fill_required_variables(app), [])
    ports = [f"{mapping['host_port']}:{mapping['container_port']}/{mapping['protocol']}" for mapping in mappings]
    expected = parse_services(plain)
    expected[app.service]["ports"] = ports
    assert parse_services(text) == expected
    assert yaml.safe_load(text).get("volumes") == yaml.safe_load(plain).get("volumes")


def test_invalid_variables_are_refused():
    nginx, redis = docker_apps.get("nginx"), docker_apps.get("redis")
    assert assert_refused(docker_apps.render_compose_file, nginx, {"A": "1"}, []) == (
        "env_variables",
        "Unknown: A. Known: none.",
    )
    assert "REDIS_PASSWORD" in assert_refused(docker_apps.render_compose_file, redis, {"OTHER": "1"}, [])[1]
    for name, wrong in (
        ("A B", "1"),
        ("1A", "1"),
        ("A", 1),
        ("A", "a\nb"),
        ("A", "\ud800"),
        ("A", "x" * 4097),
        (1, ""),
    ):
        assert assert_refused(docker_apps.validate_variables, {name: wrong})[0] == "env_variables"
    assert docker_apps.validate_variables({"_a1": "é 'x' $y"}) == {"_a1": "é 'x' $y"}


# --- custom compose files


def test_compose_file_without_mappings_is_unchanged():
    assert docker_apps.remap_ports(CUSTOM_COMPOSE_FILE, []) == CUSTOM_COMPOSE_FILE
    assert docker_apps.remap_ports(CUSTOM_COMPOSE_FILE, None) == CUSTOM_COMPOSE_FILE


def test_mapping_applies_to_service_with_that_port():
    text = docker_apps.remap_ports(
        CUSTOM_COMPOSE_FILE,
        [build_mapping(443, 1443), build_mapping(9005, 9005, "udp"), build_mapping(80, 1080, "tcp")],
    )
    services = parse_services(text)
    assert services["web"]["ports"] == ["1443:443/tcp", "1080:80/tcp"]
    assert services["voice"]["ports"] == ["9005:9005/udp"]
    services = parse_services(docker_apps.remap_ports(CUSTOM_COMPOSE_FILE, [build_mapping(7000, 70)]))
    assert services["voice"]["ports"] == ["70:7000/tcp"]
    assert services["web"] == parse_services(CUSTOM_COMPOSE_FILE)["web"]


def test_unknown_port_is_mapped_to_first_service():
    for unknown in (build_mapping(5000, 5000), build_mapping(9005, 9005), build_mapping(80, 80, "udp")):
        services = parse_services(docker_apps.remap_ports(CUSTOM_COMPOSE_FILE, [unknown]))
        assert services["web"]["ports"] == [
            f"{unknown['host_port']}:{unknown['container_port']}/{unknown.get('protocol', 'tcp')}"
        ]


def test_remapping_preserves_other_yaml_values():
    """Compose reads YAML 1.2: `22:22` and `on` are strings there, but not in PyYAML (YAML 1.1)."""
    text = docker_apps.remap_ports(CUSTOM_COMPOSE_FILE, [build_mapping(80, 81)])
    for sentence in ("hostname: 22:22", "privileged: on", "read_only: null", "user: '1000'", 'name: "80"'):
        assert f"    {sentence}\n" in text
    before, after = yaml.safe_load(CUSTOM_COMPOSE_FILE), yaml.safe_load(text)
    before["services"]["web"]["ports"] = ["81:80/tcp"]
    assert after == before


def test_ports_with_variables_addresses_and_ranges_are_recognized():
    text = "services:\n  a: {image: x}\n  b: {image: x, ports: ['%s']}\n"
    for entry, port in (
        ("${PORT:-80}:80", 80),
        ("127.0.0.1:81:80", 80),
        ("[::1]:81:80/tcp", 80),
        ("80", 80),
        ("3000-3005:4000-4005", 4003),
        ("8080:${INSIDE:-90}", 90),
    ):
        services = parse_services(docker_apps.remap_ports(text % entry, [build_mapping(port, 1)]))
        assert services["b"]["ports"] == [f"1:{port}/tcp"], entry
        assert "ports" not in services["a"]
    assert "ports" in parse_services(docker_apps.remap_ports(text % "80:$INSIDE", [build_mapping(80, 1)]))["a"]


def test_services_with_shared_yaml_anchor_keep_own_ports():
    text = "services:\n  a: &a {image: x, ports: ['80:80']}\n  b: *a\n"
    services = parse_services(docker_apps.remap_ports(text, [build_mapping(80, 81)]))
    assert (services["a"]["ports"], services["b"]["ports"]) == (["81:80/tcp"], ["80:80"])
    merged = "x-a: &a {ports: ['80:80']}\nservices:\n  b: {<<: [*a], image: x}\n"
    assert parse_services(docker_apps.remap_ports(merged, [build_mapping(80, 81)]))["b"]["ports"] == ["81:80/tcp"]


def test_invalid_compose_files_are_refused():
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(24)
    )
    for text in (
        "",
        "just words",
        "- services",
        "services: []",
        "services: {}",
        "services:\n  web: nginx\n",
        "services:\n  a: {image: x\n",
        "services: " + "[" * 5000,
        "services: !!python/object/apply:os.system ['true']\n",
        "x: " + "y" * 256 * 1024,
        "a: 1\n--- \nb: 2\n",
        "services: {a: \x00}",
        bomb,
    ):
        field, sentence = assert_refused(docker_apps.remap_ports, text, [build_mapping(80, 80)])
        assert field == "compose_url", text[:40]
        assert sentence.endswith(".")
        assert len(sentence) < 200


def test_nested_yaml_aliases_are_not_expanded():
    lines = "".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9) if n else 'lol'}]\n" for n in range(20))
    text = f"x-lol:\n{lines}  self: &self [*self]\nservices: {{a: {{image: x, labels: *l19}}}}\n"
    assert len(docker_apps.remap_ports(text, [build_mapping(80, 80)])) < 3 * len(text)


def test_invalid_and_duplicate_mappings_are_refused():
    for wrong in (
        [build_mapping(0, 80)],
        [build_mapping(80, 65536)],
        [build_mapping("80", 80)],
        [build_mapping(True, 80)],
        [build_mapping(80, 80, "sctp")],
        [{"container_port": 80}],
        ["80:80"],
        [build_mapping(80, 80), build_mapping(443, 80)],
    ):
        assert assert_refused(docker_apps.remap_ports, CUSTOM_COMPOSE_FILE, wrong)[0] == "port_mappings"
    both = parse_services(
        docker_apps.remap_ports(CUSTOM_COMPOSE_FILE, [build_mapping(80, 53), build_mapping(9000, 53, "udp")])
    )
    assert (both["web"]["ports"], both["voice"]["ports"]) == (["53:80/tcp"], ["53:9000/udp"])
