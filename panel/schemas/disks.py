"""Changes of an instance's disks in the API."""

from panel.schemas.base import In, Int, Patch, Text, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"


class DiskIn(In):
    size = Int(1, 65536, required=True, **describe("Size in GiB.", 20))
    storage_id = Text(
        maximum=36,
        load_default=None,
        allow_none=True,
        **describe("A storage of the hypervisor. Defaults to the one with the most free space.", EXAMPLE_ID),
    )


class DiskPatch(Patch):
    size = Int(1, 65536, required=True, **describe("Size in GiB. A disk cannot be made smaller.", 40))
