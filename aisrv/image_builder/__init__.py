"""Builder of relocatable images: from a `.tflite` to code, with `c/`'s kernels and arm-none-eabi-gcc.

recording.py    the kernels that a model runs, with their parameters
parameters.py   how they follow from what a kernel backend is given; structures.py: as the C code has them
tensor_steps.py operators that are steps over tensors; dimensions.py: how far apart the elements lie
source.py       the C text of a network
compiler.py     from C to an ELF file; packing.py: from that to an image
counting.py     what each node of an image executes; thumb.py: of which instructions
report.py       sizes of an image, and the report of them
build.py        all of this in order
backend.py      the kernels as a kernel backend
commands.py     the commands `aisrv-flash reloc`
"""
