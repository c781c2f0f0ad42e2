"""Authentication and authorization of the APIs and the pages."""

from panel.auth.tokens import ApiPrincipal, get_current_principal, get_source_address, require_also, requires_permission

__all__ = ["ApiPrincipal", "get_current_principal", "get_source_address", "require_also", "requires_permission"]
