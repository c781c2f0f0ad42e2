"""One panel for virtual infrastructure: machines, networks and everything around them."""

__version__ = "3.3.1"
