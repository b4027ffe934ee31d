"""Builder of relocatable images: from a `.tflite` to code, with `c/`'s kernels and arm-none-eabi-gcc.

`build` goes through `recording`, `source`, `compiler`, `packing` and `counting`, in this order.
"""
