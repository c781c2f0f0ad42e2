"""Who is asking, and whether they may."""

from panel.auth.tokens import Caller, also_needs, caller_of, can, source_address

__all__ = ["Caller", "also_needs", "caller_of", "can", "source_address"]
