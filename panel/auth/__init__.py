"""Authentication and authorization of the APIs and the pages."""

from panel.auth.tokens import ApiPrincipal, current_principal, require_also, requires_permission, source_address

__all__ = ["ApiPrincipal", "current_principal", "require_also", "requires_permission", "source_address"]
