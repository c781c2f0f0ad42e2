"""What can be sold: for setting up products."""

from api import kit
from panel.auth import permissions
from panel.schemas.catalog import ImageOut, LocationOut
from panel.schemas.plans import AdminPlanOut
from panel.services import catalog

billing = kit.Billing("catalog", __name__, description="What can be sold")
MAY = permissions.BILLING


@billing.get("/locations", op="locations", can=MAY, query=kit.PageQuery, out=kit.rows(LocationOut))
def locations():
    """List the open locations."""
    return kit.paginate(catalog.locations())


@billing.get("/plans", op="plans", can=MAY, query=kit.PageQuery, out=kit.rows(AdminPlanOut))
def plans():
    """List the plans that can be chosen in some location."""
    return kit.paginate(catalog.sold_plans())


@billing.get("/images", op="images", can=MAY, query=kit.PageQuery, out=kit.rows(ImageOut))
def images():
    """List the images that every customer may install."""
    return kit.paginate(catalog.public_images())
