"""The currency of prices, for operators."""

from api import kit
from panel.schemas.catalog import CurrencyOut
from panel.services import catalog

admin = kit.Admin("currency", __name__, description="Currencies")


@admin.get(
    "/cloud-service/currencies",
    op="list",
    can="admin:billing:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(CurrencyOut),
)
def listing():
    """List the currencies of prices.

    All prices and charges are in one currency, which the setting `PANEL_CURRENCY` of the processes determines.
    """
    return kit.paginate_list([catalog.get_currency()])
