"""Who is asking, and whether they may."""

from panel.auth.caller import Caller, caller_of, can, source_address

__all__ = ["Caller", "caller_of", "can", "source_address"]
