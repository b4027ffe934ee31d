"""Servers of byte streams: what all listeners share, with HTTP and WebSocket for those that speak them."""
