"""A dissector for Wireshark and tshark, in Lua, which names the commands in USB captures."""

from pathlib import Path
from typing import Final

DISSECTOR: Final = Path(__file__).parent / "aisrv.lua"
"""File for `-X lua_script:` or a folder of Lua plugins."""
