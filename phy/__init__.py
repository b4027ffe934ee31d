"""Physical layers: each connects an outside bus to the channel ends of AI engines."""
