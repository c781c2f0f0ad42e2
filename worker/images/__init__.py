"""The images of guests that come with the panel, built on this host from Debian's packages.

`tiny` and `debian` each offer `missing()` and `build(out, cache=…, log=…)`. What holds in both guests:

* they start by BIOS, and by UEFI with secure boot: their boot loaders and kernels are those that Debian signed;
* the QEMU guest agent runs, and login is possible on the screen (tty1) and the serial port (ttyS0);
* a NoCloud seed says who they are; `/var/lib/cloud/instance/boot-finished` appears when all of it is done, and
  `/var/log/cloud-init-output.log` has what its commands printed;
* the root file system grows into the disk at each start, and at once when `grow-root` is run.
"""
