"""The XCORE substrate: tokens, channel ends, select, timers and tiles as Trio tasks.

Logical cores are Trio tasks, channel ends are objects with the firmware's verbs, and time is an
integer count of 10 ns ticks on Trio's clock, live or virtual. The modules, from the bottom up:
`tokens`, `traps`, `waiter`, `core`, `trace`, `clock`, `switch`, `runtime`, `verb`, `tokenbuffer`, `chanend`,
`channel`, `array`, `timer`, `lock`, `select`, `memory`, `tile`, `node`.
"""
