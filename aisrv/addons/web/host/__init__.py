"""The page of `aisrv-host web`: what it shows of a device that a host reaches, and does to it."""
