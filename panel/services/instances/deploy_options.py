"""What an instance may be made from: the same rules by which a deploy refuses."""

from panel.models import Image, Iso
from panel.services import catalog, isos


def select_images(instance, account=None, *, search=None):
    """The images that can be installed on it. With an account, those that the account may choose."""
    fits = [Image.min_disk <= instance.storage, Image.min_ram <= instance.ram, Image.status == "available"]
    if instance.secure_boot_enabled:
        fits.append(Image.secure_boot)
    return catalog.select_images(account, search=search).where(*fits)


def select_isos(account=None, *, search=None):
    """The ISOs that it can boot to be installed from: nodes fetch them, so they need an https address."""
    return isos.listing(account, search=search).where(Iso.url.startswith("https://"))
