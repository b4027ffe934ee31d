"""Models as relocatable code: Arm Thumb images that run in place from flash, or from a copy in RAM.

container.py    what an image is: header, sections, addresses with a class; every field checked
report.py       sizes of an image, and the report of them
network.py      what our images hold beside the code: context, tensors, nodes, as values
structures.py   the parameters of our kernels, as the C code has them
parameters.py   how they follow from what a kernel backend is given
dimensions.py   how far apart the elements lie that a kernel walks through
builder/        from a `.tflite` to an image, with `c/`'s kernels and arm-none-eabi-gcc
machine.py      a core with its flash and RAM, which executes in `unicorn`
runtime.py      install, relocate, create, init, run, destroy
"""
