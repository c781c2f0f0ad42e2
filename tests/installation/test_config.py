"""Invalid settings stop the start with a message."""

import pytest

from panel.core.config import Config, ConfigError, load

INVALID_SETTINGS = {
    "PANEL_PUBLIC_URL": ("panel.example.com", "ftp://x", "https://", "https://h/path", "https://u@h", "http://[::1"),
    "PANEL_BIND": ("8000", "localhost", "127.0.0.1:0", "127.0.0.1:70000", "host:http"),
    "PANEL_DATABASE_URL": ("mysql://h/d", "sqlite://", "/var/panel.db"),
    "PANEL_REDIS_URL": ("localhost:6379", "http://h", "unix://"),
    "PANEL_SECRET_KEY": ("new,,old", ","),
    "PANEL_WEB_WORKERS": ("0", "-1", "two", "٣"),
    "PANEL_WEB_THREADS": ("0",),
    "PANEL_WORKERS": ("0",),
    "PANEL_WORKER_THREADS": ("0",),
    "PANEL_CURRENCY": ("euro", "€"),
    "PANEL_MAIL_URL": ("localhost:25",),
    "PANEL_MAIL_FROM": ("panel", "a@b\nBcc: x@y"),
    "PANEL_SANDBOX_DOMAIN": ("localhost", "Sandboxes.example.com", "https://sandboxes.example.com"),
    "PANEL_SANDBOX_URL": ("sandboxes.example.com", "https://h/path"),
    "PANEL_SANDBOX_BIND": ("8002",),
    "PANEL_WEBHOOK_CA": ("junk", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"),
    "PANEL_WEBHOOK_CA_FILE": ("/does/not/exist",),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in INVALID_SETTINGS.items() for value in values]
)
def test_invalid_setting_is_named_in_error(tmp_path, name, value):
    with pytest.raises(ConfigError, match=name):
        load({"PANEL_DATA_DIR": str(tmp_path), "PANEL_SECRET_KEY": "test", name: value})


def test_path_instead_of_certificates_gets_hint(tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text("-----BEGIN CERTIFICATE-----")
    with pytest.raises(ConfigError, match=f"PANEL_WEBHOOK_CA_FILE={path}"):
        Config(data_dir=tmp_path, secret_key="test", webhook_ca=str(path))


def test_valid_certificates_are_accepted(tmp_path, file_server_authority):
    assert Config(data_dir=tmp_path, secret_key="test", webhook_ca=file_server_authority.pem).webhook_ca


def test_setting_and_its_file_are_mutually_exclusive(tmp_path):
    (tmp_path / "key").write_text("abc")
    environ = {"PANEL_DATA_DIR": str(tmp_path), "PANEL_SECRET_KEY": "a", "PANEL_SECRET_KEY_FILE": str(tmp_path / "key")}
    with pytest.raises(ConfigError, match="Remove one of them"):
        load(environ)


@pytest.mark.parametrize("bind", ["127.0.0.1:8000", "[::]:80", ":8000", "unix:/run/panel.sock", "localhost:1"])
def test_valid_bind_addresses_are_accepted(tmp_path, bind):
    assert Config(data_dir=tmp_path, secret_key="test", bind=bind, database_url="postgres://p@h/d").bind == bind


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("127.0.0.1:8000", "http://localhost:8000"),
        ("[::]:9100", "http://localhost:9100"),
        ("unix:/run/panel.sock", "http://localhost:8000"),
    ],
)
def test_public_address_has_the_port_that_the_panel_listens_on(tmp_path, bind, url):
    assert Config(data_dir=tmp_path, secret_key="test", bind=bind).public_url == url


@pytest.mark.parametrize("host", ["sbx.example.net", "sbx.example.net:8443", "router.sbx.example.net"])
def test_router_address_is_outside_of_the_sandbox_domain(tmp_path, host):
    """On hosts of the domain the headers that name a sandbox do not count."""
    settings = {"data_dir": tmp_path, "secret_key": "test", "sandbox_domain": "sbx.example.net"}
    with pytest.raises(ConfigError, match="outside of PANEL_SANDBOX_DOMAIN"):
        Config(**settings, sandbox_url=f"https://{host}")
    assert Config(**settings, sandbox_url="https://router.example.net").sandbox_url
