"""One panel for virtual infrastructure: machines, networks and everything around them."""

__version__ = "0.2.0.dev0"

INTERFACE_VERSION = "3.3.1"
"""The level of the interface that the APIs implement and report (docs/decisions/0017, "Version")."""
