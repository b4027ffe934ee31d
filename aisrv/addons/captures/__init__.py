"""Captures of USB traffic: played to a device again, and dissected in Wireshark."""
