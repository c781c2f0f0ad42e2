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
    """List the open locations.

    Their ids are the `location_id` of an order.
    """
    return kit.paginate(catalog.locations())


@billing.get("/plans", op="plans", can=MAY, query=kit.PageQuery, out=kit.rows(AdminPlanOut))
def plans():
    """List the plans that can be chosen in some location.

    Switched-off plans are not among them. Their ids are the `plan_id` of an order.
    """
    return kit.paginate(catalog.sold_plans())


@billing.get("/images", op="images", can=MAY, query=kit.PageQuery, out=kit.rows(ImageOut))
def images():
    """List the images that every customer may install.

    Captured images of customers are not among them. Their ids are the `image_id` of an order.
    """
    return kit.paginate(catalog.public_images())
