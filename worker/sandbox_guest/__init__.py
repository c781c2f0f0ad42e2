"""The sandbox daemon: the program inside a sandbox that executes the calls of E2B clients.

The folder is copied into images and started there as `python3 -m sandbox_guest`. It uses only the standard library and
imports nothing else of the product.
"""

ENVD_VERSION = "0.5.7"
"""The version of E2B's own daemon whose calls are implemented. Clients use no newer calls than that."""
