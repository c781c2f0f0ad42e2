"""What customers see of a brand: name, images, accent color, links and sender of mails.

A brand belongs to a host name. The host of a request selects the brand, for an unknown host the default one.
"""

from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import formataddr, parseaddr
from urllib.parse import urlsplit

from panel.core.accent_colors import DEFAULT_ACCENT, AccentColors, compute_accent_colors
from panel.core.config import Config

PRODUCT_NAME = "Panel"
"""The name while operators have set none."""
LINK_KINDS = ("support", "terms", "privacy", "imprint")

current_host: ContextVar[str] = ContextVar("current_host", default="")
"""The host name of the request. The client controls it, so it only selects one of the known brands."""


@dataclass(frozen=True)
class BrandIdentity:
    """One brand, free of the database, so that it can be cached."""

    url: str
    """Address of its pages, without a slash at the end."""
    id: str | None = None
    """None while there is no row: the built-in identity."""
    host: str | None = None
    """None: the default brand."""
    name: str = PRODUCT_NAME
    accent: str | None = None
    logo: str | None = None
    """Digest of the image."""
    favicon: str | None = None
    sign_in_text: str = ""
    support_url: str | None = None
    terms_url: str | None = None
    privacy_url: str | None = None
    imprint_url: str | None = None
    sender_name: str | None = None
    sender_address: str | None = None

    @property
    def logo_url(self) -> str | None:
        return f"{self.url}/branding/images/{self.logo}" if self.logo else None

    @property
    def favicon_url(self) -> str | None:
        return f"{self.url}/branding/images/{self.favicon}" if self.favicon else None

    @property
    def accent_colors(self) -> AccentColors:
        return compute_accent_colors(self.accent or DEFAULT_ACCENT)

    def build_sender(self, config: Config) -> str:
        """Return the From header of its mails."""
        if not self.sender_address and not self.sender_name and self.host is None:
            return config.mail_from
        address = self.sender_address or parseaddr(config.mail_from)[1]
        return formataddr((self.sender_name or self.name, address))


def build_url(config: Config, host: str | None) -> str:
    """Return the address of a host, with scheme and port of the public address, which is the default."""
    parts = urlsplit(config.public_url)
    if host is None:
        return config.public_url.rstrip("/")
    return f"{parts.scheme}://{host}:{parts.port}" if parts.port else f"{parts.scheme}://{host}"
