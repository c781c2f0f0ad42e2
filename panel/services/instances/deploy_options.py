"""What an instance may be installed from: the same conditions with which a deploy refuses."""

from sqlalchemy import Select

from panel.models import Account, Image, Instance, Iso
from panel.services import catalog, isos
from panel.services.access import Access


def select_images(
    instance: Instance, account: Access | Account | None = None, *, search: str | None = None
) -> Select[Image]:
    """Select the images that can be installed on the instance; with an account only those that it may use."""
    query = catalog.select_images(account, search=search).where(
        Image.min_disk <= instance.storage, Image.min_ram <= instance.ram, Image.status == "available"
    )
    return query.where(Image.secure_boot) if instance.secure_boot_enabled else query


def select_isos(account: Access | Account | None = None, *, search: str | None = None) -> Select[Iso]:
    """Select the ISOs that an instance can boot for an installation. Nodes fetch them, so they need an https URL."""
    return isos.listing(account, search=search).where(Iso.url.startswith("https://"))
