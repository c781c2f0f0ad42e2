"""Every setting, from the environment: PANEL_<NAME>, or PANEL_<NAME>_FILE naming a file that holds the value."""

import ipaddress
import os
import re
import secrets
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
MAIL_SERVER = re.compile(r"(smtp|smtps|smtp\+starttls)://([^/@\s]+@)?([\w.-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?/?")


class ConfigError(Exception):
    """A setting is unknown or unusable; the message says which and what is expected."""


@dataclass(frozen=True)
class Config:
    data_dir: Path = field(default=ROOT / "var", metadata={"help": "where the panel keeps its own files"})
    database_url: str = field(default="", metadata={"help": "SQLAlchemy address; empty: SQLite in the data directory"})
    redis_url: str = field(default="", metadata={"help": "Redis for the queue; empty: an embedded one"})
    secret_key: str = field(default="", metadata={"help": "signs cookies and encrypts secrets; empty: made once"})
    public_url: str = field(default="http://127.0.0.1:8000", metadata={"help": "the address people type"})
    bind: str = field(default="127.0.0.1:8000", metadata={"help": "where the web server listens"})
    web_workers: int = field(default=2, metadata={"help": "web processes"})
    web_threads: int = field(default=8, metadata={"help": "requests a web process serves at once"})
    workers: int = field(default=2, metadata={"help": "worker processes of `panel up`"})
    worker_threads: int = field(default=8, metadata={"help": "tasks a worker process carries at once"})
    currency: str = field(default="EUR", metadata={"help": "the currency prices are shown in"})
    json_logs: bool = field(default=False, metadata={"help": "log JSON lines instead of text"})
    mail_url: str = field(
        default="", metadata={"help": "mail server, like `smtp+starttls://user:password@host:587`; empty: files"}
    )
    mail_from: str = field(default="", metadata={"help": "sender of mails; empty: panel@ the public address's host"})
    trusted_proxies: str = field(default="", metadata={"help": "comma-separated networks whose X-Forwarded-For counts"})
    webhook_allowed_networks: str = field(
        default="",
        metadata={"help": "comma-separated networks that webhooks and downloads may reach, though not public"},
    )
    webhook_ca: str = field(
        default="", metadata={"help": "certificates (PEM) that webhooks, downloads and ACME trust too"}
    )

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731  (the dataclass is frozen)
        put("data_dir", Path(self.data_dir).resolve())
        if not self.database_url:
            put("database_url", f"sqlite:///{self.data_dir / 'panel.db'}")
        if self.database_url.startswith("postgresql://"):
            put("database_url", self.database_url.replace("postgresql://", "postgresql+psycopg://", 1))
        if not self.redis_url:
            put("redis_url", f"unix://{self.data_dir / 'redis.sock'}")
            put("embedded_redis", True)
        if not self.mail_from:
            put("mail_from", f"panel@{urlsplit(self.public_url).hostname or 'localhost'}")
        if self.mail_url and not MAIL_SERVER.fullmatch(self.mail_url):
            raise ConfigError(
                "PANEL_MAIL_URL must be like smtp://host:25, smtps://host or smtp+starttls://user:pass@host."
            )
        put("proxies", networks("PANEL_TRUSTED_PROXIES", self.trusted_proxies))
        put("webhook_networks", networks("PANEL_WEBHOOK_ALLOWED_NETWORKS", self.webhook_allowed_networks))

    embedded_redis = False
    proxies = ()
    webhook_networks = ()

    @property
    def sqlite(self):
        return self.database_url.startswith("sqlite")

    @property
    def console_socket(self):
        """Where the web processes of a machine find its console process."""
        return self.data_dir / "consoles.sock"

    @property
    def https(self):
        return self.public_url.startswith("https:")


def load(environ=os.environ) -> Config:
    """The configuration of this process. An unknown PANEL_ name stops the start: it is a typing mistake."""
    known = {f"PANEL_{f.name.upper()}": f for f in fields(Config)}
    values = {}
    for name, text in environ.items():
        if not name.startswith("PANEL_"):
            continue
        plain = name.removesuffix("_FILE")
        if name not in known and plain not in known:
            raise ConfigError(f"{name} is not a setting. Known: {', '.join(sorted(known))} (each also as …_FILE).")
        if name not in known:
            text = Path(text).read_text().strip()
        values[known[plain if name not in known else name].name] = parse(name, text)
    config = Config(**values)
    return config if config.secret_key else Config(**values, secret_key=kept_secret(config.data_dir))


def parse(name, text):
    kind = next(f.type for f in fields(Config) if f"PANEL_{f.name.upper()}" in (name, name.removesuffix("_FILE")))
    if kind in (int, "int"):
        if not text.isdigit():
            raise ConfigError(f"{name} must be a whole number, not {text!r}.")
        return int(text)
    if kind in (bool, "bool"):
        if text.lower() not in ("0", "1", "false", "true", "no", "yes"):
            raise ConfigError(f"{name} must be 1 or 0, not {text!r}.")
        return text.lower() in ("1", "true", "yes")
    return text


def networks(name, text):
    try:
        return tuple(ipaddress.ip_network(each.strip()) for each in text.split(",") if each.strip())
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None


def kept_secret(data_dir):
    """The key of an installation that was given none: made at the first start and kept beside the data."""
    path = data_dir / "secret_key"
    data_dir.mkdir(parents=True, exist_ok=True)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text()
    with os.fdopen(fd, "w") as file:
        file.write(secrets.token_urlsafe(48))
    return path.read_text()
