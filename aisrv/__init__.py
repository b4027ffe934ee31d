"""A virtual XMOS XCORE AI server: channel ends, an AI engine and its physical layers, without the chip."""

__version__ = "0.1.0"
