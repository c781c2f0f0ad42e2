"""The plans and images that a billing system can sell."""

from api import kit
from panel.auth import permissions
from panel.schemas.catalog import ImageOut, LocationOut
from panel.schemas.plans import AdminPlanOut
from panel.services import catalog

billing = kit.Billing("catalog", __name__, description="Plans and images for sale")
BILLING_PERMISSION = permissions.BILLING


@billing.get(
    "/locations",
    op="locations",
    can=BILLING_PERMISSION,
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(LocationOut),
)
def locations():
    """List the enabled locations.

    Use their id as `location_id` of an order.
    """
    return kit.paginate(catalog.select_locations())


@billing.get(
    "/plans", op="plans", can=BILLING_PERMISSION, query=kit.PageQuery, out=kit.build_admin_page_schema(AdminPlanOut)
)
def plans():
    """List the plans that are offered in at least one location.

    Disabled plans are not included. Use their id as `plan_id` of an order.
    """
    return kit.paginate(catalog.select_sold_plans())


@billing.get(
    "/images", op="images", can=BILLING_PERMISSION, query=kit.PageQuery, out=kit.build_admin_page_schema(ImageOut)
)
def images():
    """List the images that all customers can install.

    Custom images of customers are not included. Use their id as `image_id` of an order.
    """
    return kit.paginate(catalog.select_public_images())
