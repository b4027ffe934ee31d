"""A real kernel as the host: Debian's, in QEMU, with the device plugged into its virtual host controller."""
