"""Host side of the AI server: a library and a command for real hardware and for the virtual device."""
