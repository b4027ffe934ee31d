"""The four SPI wires: timing rules, waveforms and their recording as VCD."""
