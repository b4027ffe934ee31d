"""An assembler that knows XS3 instructions in the inline assembly of C, and leaves the rest to the host's.

The compiler calls it in place of `as`. It rewrites only what stands between `#APP` and `#NO_APP`: an XS3
instruction becomes a call of `xa_` and its name, with its operands in `xa_op`, that keeps all registers. It
runs by itself, with the standard library alone. Source: "Firmware in C on the substrate", section Inline
assembly and .S.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

INSTRUCTIONS = {
    **dict.fromkeys(("mkmsk", "bitrev", "byterev", "clz", "ldc", "getsr"), "ds"),
    **dict.fromkeys(("sext", "zext", "andnot"), "xs"),
    **dict.fromkeys(("zip", "unzip"), "xxs"),
    "crc32": "xss",
    **dict.fromkeys(("setsr", "clrsr", "ecallf", "ecallt", "elate"), "s"),
    **dict.fromkeys(("in", "int", "inct", "getd", "testct", "testwct", "peek", "endin", "getts"), "dr"),
    **dict.fromkeys(("out", "outt", "outct", "chkct", "setd", "setc", "setpsc", "settw", "setpt"), "rs"),
    **dict.fromkeys(("freer", "edu", "eeu", "syncr", "clrpt"), "r"),
    "outpw": "rss",
    "clre": "",
    "waiteu": "",
}
"""Instructions that are served, and their operands: d written, s read, x both, r a resource, `res[...]`."""

_OTHERS = """
    ashr bau bitrev bl bla blacp blat bru bf bt crc8 crcn dcall dentsp dgetreg divs divu drestsp dret
    dualentsp eef eet endin entsp eq extdp extsp fadd fmacc fmul fsub fmant fsexp freet get getd geted
    getet getid getkep getksp getn getps getr getst getts init inpw inshr kcall kentsp kret krestsp ladd
    ld16s ld8u lda16 ldap ldaw ldd ldiv ldivu lextract linsert lmul lsats lss lsu lsub ldw maccs maccu
    mjoin msync outpw outshr peek prefetch rems remu retsp setclk setcp setdp setev setn setps setpsc
    setpt setrdy setsp settw setv ssync st16 st8 std stw syncr testlcl tinitcp tinitdp tinitlr tinitpc
    tinitsp tsetmr tsetr tstart waitef waitet xor4 clrpt vadddr vclrdr vdepth1 vdepth16 vdepth8 veq
    vgetc vlashr vladd vladsb vldc vldd vldr vlmacc vlmaccr vlmul vlsat vlsub vfttb vfttf vpos vsetc
    vsign vstc vstd vstr vstrpv
"""
UNSERVED = frozenset(_OTHERS.split()) - INSTRUCTIONS.keys()
"""Instructions of the XS3 that are not, and that the host's processor has not either."""
THREE_OPERANDS = frozenset(("add", "sub", "and", "or", "xor", "mul", "shl", "shr"))
TWO_OPERANDS = frozenset(("neg", "not"))

_LEGACY = ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")
_SIZES = {"": "q", "d": "l", "w": "w", "b": "b"}
_REGISTERS = {
    **{f"r{name}": (name, "q") for name in _LEGACY},
    **{f"e{name}": (name, "l") for name in _LEGACY},
    **{name: (name, "w") for name in _LEGACY},
    **{(f"{name[0]}l" if name[1] == "x" else f"{name}l"): (name, "b") for name in _LEGACY},
    **{f"r{n}{end}": (f"r{n}", size) for n in range(8, 16) for end, size in _SIZES.items()},
}
_STACK_WORDS = ".nstackwords"
"""Ends a symbol that XMOS's tools make of each function, its stack; here weak, which is 0."""
_SAVED = ("rax", "rcx", "rdx", "rbx", "rsi", "rdi", *(f"r{n}" for n in range(8, 16)))
_RED_ZONE = 128
_WIDE = re.compile(r"%[yz]mm\d")
_MARKER = re.compile(r'#\s+(\d+)\s+"([^"]*)"')
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+(?:"([^"]*)"\s+)?"([^"]*)"')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")


class InstructionError(Exception):
    """An instruction that can't be rewritten."""


class Rewriter:
    """Rewrites the output of a compiler."""

    def __init__(self) -> None:
        self._in_assembly = False
        self._files: dict[str, str] = {}
        self._folder = ""
        self._place = ("assembly", "0")
        self._calls = 0

    def rewrite(self, text: str) -> str:
        """Return the text with calls in place of XS3 instructions. Raises InstructionError with the place."""
        try:
            out = "\n".join(line for each in text.split("\n") for line in self._line(each))
        except InstructionError as error:
            raise InstructionError(f"{':'.join(self._place)}: {error}") from None
        if self._calls and _WIDE.search(text):
            what = "XS3 instructions keep no registers wider than 128 bits: leave out -mavx and -march"
            raise InstructionError(f"{self._place[0]}: {what}")
        return out

    def _line(self, line: str) -> Iterator[str]:
        text = line.strip()
        if text.startswith("#"):
            self._in_assembly = text == "#APP" or (self._in_assembly and text != "#NO_APP")
            if (marker := _MARKER.match(text)) and marker[2]:
                self._place = (marker[2], marker[1])
        elif self._in_assembly:
            for statement in line.split(";"):
                yield from self._statement(statement)
            return
        elif (named := _FILE.match(line)) is not None:
            number, folder, name = named[1], named[2] or "", named[3]
            if number == "0":
                self._folder = folder  # that of the compiler, which others may be below
            self._files[number] = os.path.join(self._folder, folder, name)  # noqa: PTH118 - as it is written
        elif (place := _LOC.match(line)) is not None:
            self._place = (self._files.get(place[1], self._place[0]), place[2])
        yield line

    def _statement(self, statement: str) -> Iterator[str]:
        name, _, rest = re.sub(r"(//|#).*", "", statement).strip().partition(" ")
        name, tab, more = name.partition("\t")
        rest = f"{more} {rest}" if tab else rest
        operands = [each.strip() for each in re.split(r",(?![^\[]*\])", rest)] if rest.strip() else []
        kinds = INSTRUCTIONS.get(name)
        if kinds is not None and ("r" not in kinds or "res[" in rest):
            yield from self._call(name, kinds, operands)
        elif name == "mov" and len(operands) == 2 and not all(each[0] in "%$" for each in operands):
            yield f"\tmovl {_word(operands[1])}, {_word(operands[0])}"  # the destination is first
        elif (
            name in UNSERVED
            or "res[" in rest
            or (name in THREE_OPERANDS and len(operands) == 3)
            or (name in TWO_OPERANDS and len(operands) == 2)
        ):
            raise InstructionError(f"XS3 instruction '{name}' has no counterpart on the host")
        else:
            yield statement

    def _call(self, name: str, kinds: str, operands: Sequence[str]) -> Iterator[str]:
        """Yield the call of an instruction: operands in, all that lives saved, the call, and operands out."""
        if len(operands) != len(kinds):
            raise InstructionError(f"XS3 instruction '{name}' has {len(kinds)} operands, not {len(operands)}")
        self._calls += 1
        yield f"\tleaq -{_RED_ZONE}(%rsp), %rsp"
        for number, (kind, operand) in enumerate(zip(kinds, operands, strict=True)):
            if kind == "r":
                resource = re.fullmatch(r"res\[(.*)\]", operand)
                if resource is None:
                    raise InstructionError(f"XS3 instruction '{name}': {operand} is not res[...]")
                operand = resource[1].strip()
            if kind != "d":
                yield from _put(number, operand)
        yield from (f"\tpushq %{register}" for register in _SAVED)
        yield from ("\tpushfq", "\tmovq %rsp, %rbx", "\tandq $-16, %rsp", "\tsubq $512, %rsp")
        yield from ("\tfxsave (%rsp)", f"\tcall xa_{name}", "\tfxrstor (%rsp)", "\tmovq %rbx, %rsp")
        yield from ("\tpopfq", *(f"\tpopq %{register}" for register in reversed(_SAVED)))
        for number, (kind, operand) in enumerate(zip(kinds, operands, strict=True)):
            if kind in "dx":
                yield f"\tmovl xa_op+{8 * number}, {_word(operand)}"
        yield f"\tleaq {_RED_ZONE}(%rsp), %rsp"
        yield from (f"\t.weak {each}" for each in operands if each.endswith(_STACK_WORDS))
        if name == "waiteu":
            yield "\tjmp *xa_op"


def _put(number: int, operand: str) -> Iterator[str]:
    """Yield what makes a register of any size, or a constant, an operand of 32 bits."""
    place = f"xa_op+{8 * number}"
    if (register := _REGISTERS.get(operand.lstrip("%"))) is not None:
        yield f"\tmovl $0, {place}"
        yield f"\tmov{register[1]} %{operand.lstrip('%')}, {place}"
    elif "(" in operand or operand.startswith("%") or re.fullmatch(r"[a-z]+\d+", operand):
        raise InstructionError(f"{operand} is neither a register nor a constant of an XS3 instruction")
    else:
        yield f"\tmovl ${operand.lstrip('$')}, {place}"


def _word(operand: str) -> str:
    """Return the name of the 32 bits of a register."""
    register = _REGISTERS.get(operand.lstrip("%"))
    if register is None:
        raise InstructionError(f"{operand} is not a register of an XS3 instruction")
    name = register[0]
    return f"%{name}d" if name.startswith("r") else f"%e{name}"


def main(arguments: Sequence[str]) -> int:
    """Assemble as `as` does with these arguments, and return its exit code."""
    sources = [each for each in arguments if each.endswith((".s", ".S"))]
    text = "".join(Path(each).read_text() for each in sources) if sources else sys.stdin.read()
    try:
        rewritten = Rewriter().rewrite(text)
    except InstructionError as error:
        print(error, file=sys.stderr)
        return 1
    rest = [each for each in arguments if each not in sources and each != "-"]
    host = shutil.which("as") or "as"
    return subprocess.run((host, *rest, "-"), input=rewritten.encode(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
