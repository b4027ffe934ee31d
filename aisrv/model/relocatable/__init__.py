"""Relocatable images of models as values: Arm Thumb code that runs in place from flash, or copied to RAM.

container.py    what an image is: header, sections, addresses with a class; every field checked
network.py      what our images hold beside the code: context, tensors, nodes, as values
model.py        an image as a model, and what engines ask of it
stored.py       an image in a flash's segment, with its length and its CRC
"""
