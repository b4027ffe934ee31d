"""The flash server: model, parameter, operator and XIP partitions of a flash chip, served over channels.

Not part of this release: engines answer flash commands with ERROR_BAD_CMD.
"""
