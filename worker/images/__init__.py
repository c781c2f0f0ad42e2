"""The guest images that come with the panel, built on this host from Debian's packages.

`tiny` and `debian` each have `list_missing()` and `build(out, cache=…, log=…)`. True for both guests:

* they start by BIOS, and by UEFI with secure boot: their boot loaders and kernels are those that Debian signed;
* the QEMU guest agent runs, and login is possible on the screen (tty1) and the serial port (ttyS0);
* a NoCloud seed configures them; `/var/lib/cloud/instance/boot-finished` appears when all of it is done, and
  `/var/log/cloud-init-output.log` has the output of its commands;
* the root file system grows to the size of the disk at each start, and at once when `grow-root` is run.
"""
