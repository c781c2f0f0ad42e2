"""The plans and images that a billing system can sell."""

from api import kit
from panel.auth import permissions
from panel.schemas.catalog import ImageOut, LocationOut
from panel.schemas.plans import AdminPlanOut
from panel.services import catalog

billing = kit.Billing("catalog", __name__, description="What can be sold")
BILLING_PERMISSION = permissions.BILLING


@billing.get(
    "/locations",
    op="locations",
    can=BILLING_PERMISSION,
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(LocationOut),
)
def locations():
    """List the open locations.

    Their ids are the `location_id` of an order.
    """
    return kit.paginate(catalog.select_locations())


@billing.get(
    "/plans", op="plans", can=BILLING_PERMISSION, query=kit.PageQuery, out=kit.build_admin_page_schema(AdminPlanOut)
)
def plans():
    """List the plans that can be chosen in some location.

    Switched-off plans are not among them. Their ids are the `plan_id` of an order.
    """
    return kit.paginate(catalog.select_sold_plans())


@billing.get(
    "/images", op="images", can=BILLING_PERMISSION, query=kit.PageQuery, out=kit.build_admin_page_schema(ImageOut)
)
def images():
    """List the images that every customer may install.

    Captured images of customers are not among them. Their ids are the `image_id` of an order.
    """
    return kit.paginate(catalog.select_public_images())
