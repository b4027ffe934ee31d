"""Attachments: ways for a host program to reach the virtual device."""
