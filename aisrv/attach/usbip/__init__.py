"""Devices over USB/IP: the server, and a Linux kernel as its client."""
