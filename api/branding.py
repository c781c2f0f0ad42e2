"""The brands of the installation."""

from api import kit
from api.connect import admin as system
from panel.core.errors import NotFound
from panel.schemas.brands import BrandingIn, BrandingOut, BrandingQuery
from panel.services import brands


@system.get("/system/branding", op="branding", can="admin:settings:read", query=BrandingQuery, out=BrandingOut)
def show(query):
    """Get a brand.

    Without `host`, the default brand. Returns 404 if no brand has the host name.
    """
    return get_identity(query.get("host"))


@system.post("/system/branding", op="update_branding", can="admin:settings:write", body=BrandingIn, out=BrandingOut)
def update(body):
    """Change a brand, or create the one of a host name.

    Only the fields you send are changed. Without `host`, the default brand. All processes use the new values within
    five seconds. Returns 422 for an image that is too large or neither PNG nor WebP.
    """
    host = body["host"] and body["host"].lower()
    brands.save(brands.find_row(host), **body)
    kit.set_message("Branding updated.")
    return get_identity(host)


def get_identity(host):
    identity = brands.load().get(host and host.lower())
    if identity is None:
        raise NotFound("No such brand.")
    return identity
