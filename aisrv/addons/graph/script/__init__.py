"""Scripts of graphs: the instructions, their assembler and disassembler, and the machine that runs them."""
