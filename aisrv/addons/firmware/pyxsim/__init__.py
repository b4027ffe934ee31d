"""XMOS's checkers of pins on our tiles: what test_support's `Pyxsim` offers to them, without its simulator.

`pytest -p aisrv.addons.firmware.pyxsim.plugin` lets tests find it as `Pyxsim`. Source: "Firmware in C on the
substrate", section The design, Pyxsim adapter.
"""
