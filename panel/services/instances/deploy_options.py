"""What an instance may be installed from: the same conditions with which a deploy refuses."""

from panel.models import Image, Iso
from panel.services import catalog, isos


def select_images(instance, account=None, *, search=None):
    """Select the images that can be installed on the instance; with an account only those that it may use."""
    conditions = [Image.min_disk <= instance.storage, Image.min_ram <= instance.ram, Image.status == "available"]
    if instance.secure_boot_enabled:
        conditions.append(Image.secure_boot)
    return catalog.select_images(account, search=search).where(*conditions)


def select_isos(account=None, *, search=None):
    """Select the ISOs that an instance can boot for an installation. Nodes fetch them, so they need an https URL."""
    return isos.listing(account, search=search).where(Iso.url.startswith("https://"))
