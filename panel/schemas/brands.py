"""Brands in the admin API."""

import binascii
import re
from base64 import b64decode

from marshmallow import Schema, ValidationError, fields

from panel.core.accent_colors import COLOR_PATTERN
from panel.core.messages import message
from panel.schemas.accounts import Email
from panel.schemas.base import Hostname, In, Name, Out, Text, describe

MAX_IMAGE_BYTES = 256 * 1024
MAX_IMAGE_PIXELS = 1024
MAX_SIGN_IN_TEXT = 1000
URL_PATTERN = re.compile(r"https?://[^\s/@<>\"'\\]+(/[^\s<>\"'\\]*)?")
EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
HOST = describe("Host name of the brand's pages. Null: the default brand.", "cloud.example.com")
NAME = describe("Name of the product.", "Example Cloud")
ACCENT = describe(
    "Color of buttons and links, `#rrggbb`. Pages use the nearest colors with a contrast of 4.5:1. Null: the panel's"
    " own.",
    "#0b7a4b",
)
SIGN_IN_TEXT = describe("Plain text on the sign-in page.", "Welcome to Example Cloud.")
SENDER_NAME = describe("Name of the sender of mails. Null: the brand's name.", "Example Cloud")
SENDER_ADDRESS = describe(
    "Address of the sender of mails. Null: that of the installation. Your mail server must accept it.",
    "cloud@example.com",
)
LINK_TEXTS = {
    "support_url": "Page for help, shown in the account menu and on the sign-in page.",
    "terms_url": "Terms of service.",
    "privacy_url": "Privacy policy.",
    "imprint_url": "Imprint.",
}


class Color(Text):
    """A color `#rrggbb`."""

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs).lower()
        if not COLOR_PATTERN.fullmatch(text):
            raise ValidationError(message("Must be a color like #1c5fd4."))
        return text


class WebAddress(Text):
    """The address of a web page: http or https, without a user name."""

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        if not URL_PATTERN.fullmatch(text):
            raise ValidationError(message("Must be a URL that begins with https:// or http://."))
        return text


class AsciiEmail(Email):
    """An email address in ASCII, as the header of a mail needs it."""

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        if not text.isascii():
            raise ValidationError(message("Must be an email address."))
        return text


class ImageContent(fields.String):
    """An image as base64, read as bytes. The service checks them."""

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        try:
            return b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise ValidationError(message("Must be base64.")) from None


def optional(field, *arguments, text, **options):
    return field(*arguments, allow_none=True, **options, **text)


class BrandPatch(In):
    """Changes of a brand. Missing fields stay as they are."""

    name = Name(maximum=64, **NAME)
    accent = optional(Color, text=ACCENT)
    sign_in_text = Text(maximum=MAX_SIGN_IN_TEXT, lines=True, **SIGN_IN_TEXT)
    support_url = optional(
        WebAddress, maximum=500, text=describe(LINK_TEXTS["support_url"], "https://example.com/help")
    )
    terms_url = optional(WebAddress, maximum=500, text=describe(LINK_TEXTS["terms_url"], "https://example.com/terms"))
    privacy_url = optional(
        WebAddress, maximum=500, text=describe(LINK_TEXTS["privacy_url"], "https://example.com/privacy")
    )
    imprint_url = optional(
        WebAddress, maximum=500, text=describe(LINK_TEXTS["imprint_url"], "https://example.com/imprint")
    )
    sender_name = optional(Name, maximum=64, text=SENDER_NAME)
    sender_address = optional(AsciiEmail, text=SENDER_ADDRESS)


class BrandHost(In):
    host = Hostname(required=True, **describe("Host name of the brand's pages.", "cloud.example.com"))


class BrandingIn(BrandPatch):
    host = optional(Hostname, load_default=None, text=HOST)
    logo = optional(
        ImageContent,
        text=describe("Logo: a square PNG or WebP image of at most 256 KiB, as base64. Null removes it.", None),
    )
    favicon = optional(ImageContent, text=describe("Icon of browser tabs, as `logo`. Null: the panel's own.", None))


class BrandingQuery(Schema):
    host = Hostname(metadata={"description": "Host name of a brand. Without it: the default brand."})


class BrandingOut(Out):
    id = fields.String(
        allow_none=True, **describe("Id of the brand; null for a default brand that was never changed.", EXAMPLE_ID)
    )
    host = fields.String(allow_none=True, **HOST)
    url = fields.String(**describe("Address of the brand's pages, for links in mails.", "https://cloud.example.com"))
    name = fields.String(**NAME)
    accent = fields.String(allow_none=True, **ACCENT)
    logo_url = fields.String(allow_none=True, **describe("URL of the logo, or null.", None))
    favicon_url = fields.String(allow_none=True, **describe("URL of the icon of browser tabs, or null.", None))
    sign_in_text = fields.String(**SIGN_IN_TEXT)
    support_url = fields.String(allow_none=True, **describe(LINK_TEXTS["support_url"], "https://example.com/help"))
    terms_url = fields.String(allow_none=True, **describe(LINK_TEXTS["terms_url"], "https://example.com/terms"))
    privacy_url = fields.String(allow_none=True, **describe(LINK_TEXTS["privacy_url"], "https://example.com/privacy"))
    imprint_url = fields.String(allow_none=True, **describe(LINK_TEXTS["imprint_url"], "https://example.com/imprint"))
    sender_name = fields.String(allow_none=True, **SENDER_NAME)
    sender_address = fields.String(allow_none=True, **SENDER_ADDRESS)
