"""Locations: hypervisor groups as customers see them."""

from api import kit
from panel.schemas.plans import AdminLocationOut, AdminPlanGroupOut
from panel.services import catalog, hypervisors

admin = kit.Admin("cs_location", __name__, description="Locations")


@admin.get(
    "/cloud-service/locations",
    op="list",
    can="admin:catalog:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(AdminLocationOut),
)
def listing():
    """List all locations, including disabled ones.

    Customers only see the enabled ones that they can select.
    """
    return kit.paginate(hypervisors.select_groups())


@admin.get("/cloud-service/location/<location_id>", op="get", can="admin:catalog:read", out=AdminLocationOut)
def show(location_id):
    """Get a location.

    A location is a hypervisor group as customers see it. Returns 404 if the location does not exist.
    """
    return hypervisors.get_group(location_id)


@admin.get(
    "/cloud-service/location/<location_id>/plan-groups",
    op="plan_groups",
    can="admin:catalog:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(AdminPlanGroupOut),
)
def plan_groups(location_id):
    """List the plan groups offered in a location.

    Includes disabled groups. Returns 404 if the location does not exist.
    """
    query = catalog.list_all_plan_groups(group=hypervisors.get_group(location_id))
    return kit.paginate(query)
