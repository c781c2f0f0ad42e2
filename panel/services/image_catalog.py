"""The image browser: a catalog of publishers' images, from which operators add images to the panel.

The bundled catalog has addresses at which publishers keep their latest image. Operators may set the address of their
own catalog (`image_catalog_url`), a JSON list of the same form. Its rows can also have sizes, checksums and exact
versions. It is fetched every hour.
"""

import json
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from sqlalchemy import delete, select

from panel.core.db import session
from panel.core.errors import Invalid, NotFound, Problem
from panel.core.messages import get_message, message
from panel.models import CatalogImage, Image
from panel.services import images
from panel.services.media import remote_file

BUNDLED_CATALOG_PATH = Path(__file__).parent / "image_catalog.json"
CATALOG_FIELDS = (
    "label",
    "distro",
    "version",
    "publisher_version",
    "release",
    "variant",
    "build_date",
    "url",
    "size",
    "sha256",
)
REQUIRED_FIELDS = ("key", "label", "distro", "version", "url")
MAX_CATALOG_ROWS = 5000
SECURE_BOOT_DISTROS = ("Debian", "Ubuntu", "AlmaLinux", "Rocky Linux", "Fedora", "CentOS Stream")
"""Distributions whose cloud images have a signed boot loader, so that they start with secure boot."""
TEXT_PATTERN = re.compile(r"[^\x00-\x1f\x7f]{1,500}")


def list_entries(search: str | None = None, distro: str | None = None) -> list[CatalogImage]:
    """Return the rows by distribution, then version, newest first."""
    rows = session.scalars(select(CatalogImage)).all() or parse_catalog(BUNDLED_CATALOG_PATH.read_text())
    if search:
        needle = search.lower()
        rows = [row for row in rows if needle in f"{row.key} {row.label} {row.distro} {row.release}".lower()]
    if distro:
        rows = [row for row in rows if row.distro.lower() == distro.lower()]
    return sorted(
        rows, key=lambda row: (row.distro.lower(), [-part for part in parse_version_numbers(row.version)], row.key)
    )


def parse_version_numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def get_entry(key: str) -> CatalogImage:
    entry = next((row for row in list_entries() if row.key == key), None)
    if entry is None:
        raise NotFound(message("The catalog has no such image."))
    return entry


def parse_catalog(text: str) -> list[CatalogImage]:
    """Return the rows of a catalog's text. Raise Invalid when the text is not a catalog."""
    try:
        rows = [parse_row(item) for item in json.loads(text)[:MAX_CATALOG_ROWS]]
    except (ValueError, TypeError, KeyError) as error:
        raise Invalid(message("Not a valid catalog: {error}.", error=get_message(error))) from None
    if len({row.key for row in rows}) < len(rows):
        raise Invalid(message("Not a valid catalog: two rows have the same key."))
    return rows


def parse_row(item: Mapping[str, Any]) -> CatalogImage:
    for name in REQUIRED_FIELDS:
        if not isinstance(item[name], str) or not TEXT_PATTERN.fullmatch(item[name]):
            raise ValueError(message("{field} is not a line of text", field=name))
    values = {name: item.get(name) for name in CATALOG_FIELDS}
    if values["build_date"]:
        values["build_date"] = date.fromisoformat(values["build_date"])
    if values["size"] is not None and not (isinstance(values["size"], int) and values["size"] > 0):
        raise ValueError(message("size is not a number of bytes"))
    return CatalogImage(key=item["key"], **values)


def replace(text: str) -> None:
    """Replace the rows of the operators' own catalog by those of the text."""
    rows = parse_catalog(text)
    session.execute(delete(CatalogImage))
    session.add_all(rows)
    session.flush()


def add(
    *, actor: str, catalog_id: str | None = None, url: str | None = None, size: int | None = None, **values: Any
) -> Image:
    """Add an image from a catalog row or from any address. The size is required: from the catalog when the address is
    the row's, else from the request, else from the server."""
    row = get_entry(catalog_id) if catalog_id else next((row for row in list_entries() if row.url == url), None)
    url = url or (row.url if row else None)
    if not url:
        raise Invalid(message("The image is missing."), url=message("Enter a catalog entry or a URL."))
    remote_file.ensure_allowed_url(url)
    facts = {name: getattr(row, name) for name in CATALOG_FIELDS if name != "size"} if row else {}
    if row and row.url != url:
        facts["sha256"] = None
    catalog_size = row.size if row and row.url == url else None
    size = catalog_size or size or find_remote_size(url)
    if not size:
        raise Problem(message("The size of the image is not known."), reason="size_unknown", status=400)
    facts |= {"url": url, "secure_boot": bool(row and row.url == url and row.distro in SECURE_BOOT_DISTROS), **values}
    for name in ("label", "distro", "version"):
        if not facts.get(name):
            raise Invalid(
                message("The description of the image is incomplete."),
                **{name: message("Required for images that are not in the catalog.")},
            )
    name = facts.pop("name", None) or (row.key if row else slugify(facts["label"]))
    return images.create(name=name, size=size, catalog_key=row and row.key, actor=actor, **facts)


def find_remote_size(url: str) -> int | None:
    try:
        return remote_file.find_size(url)
    except remote_file.FetchError:
        return None


def slugify(label: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-") or "image"


def get_major_version(version: str | None) -> str:
    return (version or "").split(".")[0]


NO_RELEASE_MESSAGE = message("This image was created here, so the catalog has no release of it.")
BUILT_IMAGE_NAMES = ("tiny", "rescue")
"""Names of the small systems that are built with the panel, which rescue also boots."""


def update_to_release(image: Image, *, actor: str, catalog_id: str | None = None) -> Image:
    """Update the image to the catalog's current release of the same distribution and major version. Raise
    `catalog_mismatch` for another one, and for images that were built here or captured from an instance."""
    if image.purpose == "user" or image.name in BUILT_IMAGE_NAMES:
        raise Problem(NO_RELEASE_MESSAGE, reason="catalog_mismatch", status=400)
    row = get_entry(catalog_id or image.catalog_key or find_matching_key(image))
    is_same_series = row.distro.lower() == image.distro.lower() and get_major_version(row.version) == get_major_version(
        image.version
    )
    if not is_same_series:
        raise Problem(
            message(
                "The catalog's row is {row_distro} {row_version}, the image {distro} {version}.",
                row_distro=row.distro,
                row_version=row.version,
                distro=image.distro,
                version=image.version,
            ),
            reason="catalog_mismatch",
            status=400,
        )
    changed = (row.url, row.sha256, row.publisher_version) != (
        image.url,
        image.expected_sha256,
        image.publisher_version,
    )
    for name in ("publisher_version", "build_date", "release", "variant", "version"):
        setattr(image, name, getattr(row, name) or getattr(image, name))
    image.catalog_key, image.url, image.expected_sha256 = row.key, row.url, row.sha256
    image.size = row.size or image.size
    if changed or image.status != "available" or row.publisher_version is None:
        images.retry_fetch(image, actor=actor)
    session.flush()
    return image


def find_matching_key(image: Image) -> str:
    keys = [row.key for row in list_entries() if row.distro.lower() == image.distro.lower()]
    return next(
        (key for key in keys if get_major_version(get_entry(key).version) == get_major_version(image.version)),
        keys[0] if keys else "",
    )


def get_taken_keys() -> set[str]:
    """Return the catalog keys that images of the panel already have."""
    return set(session.scalars(select(Image.catalog_key).where(Image.catalog_key.is_not(None))))
