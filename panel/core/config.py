"""The settings, read from the environment: PANEL_<NAME>, or PANEL_<NAME>_FILE with the path of a file."""

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent.parent
MAIL_SERVER = re.compile(r"(smtp|smtps|smtp\+starttls)://([^/@\s]+@)?([\w.-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?/?")

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

RESTORE_MARKER = "restore-in-progress"
"""Name of a file in the data directory that exists while a backup is being restored."""

DATABASE_ADDRESS = re.compile(r"sqlite:///.+|postgresql\+psycopg://.*")
REDIS_ADDRESS = re.compile(r"(redis|rediss)://.*|unix:///.+")
MAIL_SENDER = re.compile(r"[^\r\n]*[^\s@<]@[^\s@<>]+>?")
SANDBOX_DOMAIN = re.compile(r"(?!-)[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})+(:[0-9]{1,5})?")
BIND_ADDRESS = re.compile(r"unix:.+|([\w.-]*|\[[0-9a-fA-F:.]*\]):([0-9]{1,5})")

METRICS_TOKEN = re.compile(r"[\x21-\x7e]{32,}")

DEFAULT_PORT = 8000


class ConfigError(Exception):
    """A setting is unknown or invalid; the message names it and the expected form."""


def is_public_url(url: str) -> bool:
    """Return whether the URL has only a scheme, a host and optionally a port, so that paths can be appended."""
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_plain = not re.search(r"[\s@?#]", url) and parts.path in ("", "/")
    return parts.scheme in ("http", "https") and bool(parts.hostname) and has_port and is_plain


def has_host_below(url: str, domain: str) -> bool:
    """Return whether the URL's host is the domain or below it. Ports do not matter."""
    host, name = urlsplit(url).hostname or "", domain.partition(":")[0]
    return bool(name) and (host == name or host.endswith(f".{name}"))


def is_bind_address(bind: str) -> bool:
    match = BIND_ADDRESS.fullmatch(bind)
    return match is not None and (match[2] is None or 0 < int(match[2]) < 65536)


def is_metrics_token(token: str) -> bool:
    return not token or METRICS_TOKEN.fullmatch(token) is not None


def is_secret_key(keys: str) -> bool:
    return not keys or all(key.strip() for key in keys.split(","))


SETTING_RULES = (
    ("bind", "like 127.0.0.1:8000, [::]:8000 or unix:/path", is_bind_address),
    ("public_url", "like https://panel.example.com: http or https, a host, no path", is_public_url),
    ("database_url", "like sqlite:////path/panel.db or postgresql://user@host/db", DATABASE_ADDRESS.fullmatch),
    ("redis_url", "like redis://host:6379/0, rediss://host:6379/0 or unix:///path", REDIS_ADDRESS.fullmatch),
    ("secret_key", "one or more keys with commas between them, none of them empty", is_secret_key),
    ("metrics_token", "at least 32 letters, digits or signs, without spaces", is_metrics_token),
    ("web_workers", "at least 1", bool),
    ("web_threads", "at least 1", bool),
    ("workers", "at least 1", bool),
    ("worker_threads", "at least 1", bool),
    ("currency", "three capital letters, like EUR", re.compile("[A-Z]{3}").fullmatch),
    (
        "mail_url",
        "like smtp://host:25, smtps://host or smtp+starttls://user:pass@host",
        lambda url: not url or MAIL_SERVER.fullmatch(url),
    ),
    (
        "sandbox_domain",
        "like sandboxes.example.com: a host name in small letters, perhaps with a port",
        lambda domain: not domain or SANDBOX_DOMAIN.fullmatch(domain),
    ),
    (
        "sandbox_url",
        "like https://sandboxes.example.com: http or https, a host, no path",
        lambda url: not url or is_public_url(url),
    ),
    (
        "sandbox_bind",
        "like 127.0.0.1:8002, [::]:8002 or unix:/path",
        lambda bind: not bind or is_bind_address(bind),
    ),
    ("mail_from", "an e-mail address, like panel@example.com", MAIL_SENDER.fullmatch),
)
"""Validation rules: setting, expected form for the error message, predicate. Checked when the Config is made."""


@dataclass(frozen=True)
class Config:
    data_dir: Path = field(default=ROOT / "var", metadata={"help": "where the panel keeps its own files"})
    database_url: str = field(default="", metadata={"help": "SQLAlchemy address; empty: SQLite in the data directory"})
    redis_url: str = field(default="", metadata={"help": "Redis for the queue; empty: an embedded one"})
    secret_key: str = field(default="", metadata={"help": "signs cookies and encrypts secrets; empty: made once"})
    public_url: str = field(
        default="",
        metadata={"help": "the address people type; empty: `http://localhost` with the port of `PANEL_BIND`"},
    )
    bind: str = field(default=f"127.0.0.1:{DEFAULT_PORT}", metadata={"help": "where the web server listens"})
    web_workers: int = field(default=2, metadata={"help": "web processes"})
    web_threads: int = field(default=8, metadata={"help": "requests a web process serves at once"})
    web_head_seconds: int = field(
        default=30, metadata={"help": "how long the head of a request may take to arrive, in seconds"}
    )
    web_incomplete_heads_per_address: int = field(
        default=0,
        metadata={
            "help": "connections with an incomplete request head that one address may have to a web process; 0: any "
            "number. Trusted proxies may have any number"
        },
    )
    workers: int = field(default=2, metadata={"help": "worker processes of `panel up`"})
    worker_threads: int = field(default=8, metadata={"help": "tasks a worker process carries at once"})
    currency: str = field(default="EUR", metadata={"help": "the currency prices are shown in"})
    json_logs: bool = field(default=False, metadata={"help": "log JSON lines instead of text"})
    metrics_token: str = field(
        default="",
        metadata={"help": "bearer token of `/metrics`, at least 32 characters; empty: there is no `/metrics`"},
    )
    mail_url: str = field(
        default="", metadata={"help": "mail server, like `smtp+starttls://user:password@host:587`; empty: files"}
    )
    mail_from: str = field(default="", metadata={"help": "sender of mails; empty: panel@ the public address's host"})
    sandbox_domain: str = field(
        default="",
        metadata={
            "help": "domain whose host names lead to sandboxes, and `api.` before it to the sandbox API; empty: none"
        },
    )
    sandbox_url: str = field(
        default="",
        metadata={
            "help": "the router's public address for SDKs of installations without a sandbox domain, like"
            " https://sandboxes.example.com; empty: none"
        },
    )
    sandbox_bind: str = field(
        default="", metadata={"help": "where the router of sandboxes listens, like 127.0.0.1:8002; empty: none runs"}
    )
    trusted_proxies: str = field(default="", metadata={"help": "comma-separated networks whose X-Forwarded-For counts"})
    webhook_allowed_networks: str = field(
        default="",
        metadata={"help": "comma-separated networks that webhooks and downloads may reach, though not public"},
    )
    webhook_ca: str = field(
        default="", metadata={"help": "certificates (PEM) that webhooks, downloads and ACME trust too"}
    )

    def __post_init__(self) -> None:
        set_value = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731  (the dataclass is frozen)
        set_value("data_dir", Path(self.data_dir).resolve())
        if not self.database_url:
            set_value("database_url", f"sqlite:///{self.data_dir / 'panel.db'}")
        for scheme in ("postgresql://", "postgres://"):
            if self.database_url.startswith(scheme):
                set_value("database_url", self.database_url.replace(scheme, "postgresql+psycopg://", 1))
        if not self.redis_url:
            set_value("redis_url", f"unix://{self.data_dir / 'redis.sock'}")
            set_value("embedded_redis", True)
        if not self.public_url:
            bind_address = BIND_ADDRESS.fullmatch(self.bind)
            port = bind_address[2] if bind_address else None
            set_value("public_url", f"http://localhost:{port or DEFAULT_PORT}")
        if not self.mail_from:
            host = urlsplit(self.public_url).hostname if is_public_url(self.public_url) else None
            set_value("mail_from", f"panel@{get_mail_domain(host or 'localhost')}")
        for name, expected, is_valid in SETTING_RULES:
            if not is_valid(getattr(self, name)):
                raise ConfigError(f"PANEL_{name.upper()} must be {expected}.")
        if has_host_below(self.sandbox_url, self.sandbox_domain):
            raise ConfigError("PANEL_SANDBOX_URL must have a host outside of PANEL_SANDBOX_DOMAIN.")
        check_certificates(self.webhook_ca)
        set_value("proxies", parse_networks("PANEL_TRUSTED_PROXIES", self.trusted_proxies))
        set_value("webhook_networks", parse_networks("PANEL_WEBHOOK_ALLOWED_NETWORKS", self.webhook_allowed_networks))

    embedded_redis: ClassVar[bool] = False
    proxies: ClassVar[tuple[IpNetwork, ...]] = ()
    webhook_networks: ClassVar[tuple[IpNetwork, ...]] = ()

    @property
    def is_sqlite(self) -> bool:
        return self.database_url.startswith("sqlite")

    @property
    def console_socket(self) -> Path:
        """Return the path of the console server's Unix socket."""
        return self.data_dir / "consoles.sock"

    @property
    def is_https(self) -> bool:
        return self.public_url.startswith("https:")


def load(environ: Mapping[str, str] = os.environ) -> Config:
    """Return the configuration of this process, with the installation's secret key."""
    values = read_environment(environ)
    config = Config(**values)
    if (config.data_dir / RESTORE_MARKER).exists():
        raise ConfigError(
            "Restoring a backup was interrupted, so database and key may not belong together. Run"
            " `panel backup restore FILE --force` again."
        )
    if config.secret_key:
        return config
    from panel.core import secret_keys  # imports Config from this module

    return Config(**values | {"secret_key": secret_keys.read_or_create(config)})


def read_environment(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the parsed settings of the environment by field name. Raise ConfigError for an unknown PANEL_ name,
    because it is probably a typing mistake."""
    settings = {f"PANEL_{f.name.upper()}": f for f in fields(Config)}
    values = {}
    for name, text in environ.items():
        if not name.startswith("PANEL_"):
            continue
        base_name = name.removesuffix("_FILE")
        if name not in settings and base_name not in settings:
            raise ConfigError(f"{name} is not a setting. Known: {', '.join(sorted(settings))} (each also as …_FILE).")
        if name not in settings:
            if base_name in environ:
                raise ConfigError(f"Both {base_name} and {name} are set. Remove one of them.")
            text = read_setting_file(name, text)
        values[settings[base_name if name not in settings else name].name] = parse_value(name, text)
    return values


def read_setting_file(name: str, path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: {path} cannot be read: {getattr(error, 'strerror', error)}.") from None


def check_certificates(pem: str) -> None:
    """Raise ConfigError when the text is not usable as CA certificates, with a hint when it is the path of a file."""
    if not pem:
        return
    if len(pem) < 4096 and "\n" not in pem and Path(pem).exists():
        raise ConfigError(
            "PANEL_WEBHOOK_CA must hold the certificates themselves (PEM). To name a file, set"
            f" PANEL_WEBHOOK_CA_FILE={pem}"
        )
    import ssl  # imported here, because few installations set this

    try:
        ssl.create_default_context(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        detail = getattr(error, "reason", None) or error
        raise ConfigError(
            f"PANEL_WEBHOOK_CA must hold certificates as text (PEM, -----BEGIN CERTIFICATE-----): {detail}."
        ) from None


def parse_value(name: str, text: str) -> str | int | bool:
    kind = next(f.type for f in fields(Config) if f"PANEL_{f.name.upper()}" in (name, name.removesuffix("_FILE")))
    if kind in (int, "int"):
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise ConfigError(f"{name} must be a whole number, not {text!r}.")
        return int(text)
    if kind in (bool, "bool"):
        if text.lower() not in ("0", "1", "false", "true", "no", "yes"):
            raise ConfigError(f"{name} must be 1 or 0, not {text!r}.")
        return text.lower() in ("1", "true", "yes")
    return text


def get_mail_domain(host: str) -> str:
    """Return the host as the domain of a mail address: IP addresses are in brackets (RFC 5321, 4.1.3)."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return f"[{address}]" if address.version == 4 else f"[IPv6:{address}]"


def parse_networks(name: str, text: str) -> tuple[IpNetwork, ...]:
    try:
        return tuple(ipaddress.ip_network(network.strip()) for network in text.split(",") if network.strip())
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
