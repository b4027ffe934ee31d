"""Ways to a Jacdac bus from outside: TCP, WebSocket, another hub, a serial port."""
