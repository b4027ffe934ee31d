"""Flash: a chip that behaves like one, its server, the layout of its images, and the packager `aisrv-flash`.

part, nor, chip, storage     the QSPI NOR chip: values, state machine, verbs, bytes that survive a kill
layout, packager             images as values, and the files that people make them of
server, flash_channel, xip   the task that serves models, parameters, operators and XIP over channels
boot, upgrade, slots         server images in the boot partition
serprog, programmer          a programmer on the chip's pins
"""
