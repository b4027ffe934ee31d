"""Execution of relocatable images: a board with a core, a flash and RAM.

memory.py       the flash and the RAM
machine.py      a core with its memory map, which executes in `unicorn`
runtime.py      install, relocate, create, init, run, destroy
"""
