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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

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
_BYTES = {(f"{name[0]}l" if name[1] == "x" else f"{name}l"): (name, "b") for name in _LEGACY}
_HIGH_BYTES = {f"{name[0]}h": (name, "b") for name in _LEGACY[:4]}
_OF_EITHER = {
    **{f"e{name}": (name, "l") for name in _LEGACY},
    **{name: (name, "w") for name in _LEGACY},
    **_BYTES,
}
_OF_32_BITS = {**_OF_EITHER, **_HIGH_BYTES}
_OF_64_BITS = {
    **_OF_EITHER,
    **{f"r{name}": (name, "q") for name in _LEGACY},
    **{f"r{n}{end}": (f"r{n}", size) for n in range(8, 16) for end, size in _SIZES.items()},
}
_R11 = "xa_r11"
"""Stands for r11, which `getsr` writes, where the host has none."""
_STACK_WORDS = ".nstackwords"
"""Ends a symbol that XMOS's tools make of each function, its stack; here weak, which is 0."""
_KEPT = ("ax", "cx", "dx", "bx", "si", "di")
_RED_ZONE = 128
_WIDE = re.compile(r"%[yz]mm\d")
_MARKER = re.compile(r'#\s+(\d+)\s+"([^"]*)"')
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+(?:"([^"]*)"\s+)?"([^"]*)"')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")


class InstructionError(Exception):
    """An instruction that can't be rewritten."""


class Width(NamedTuple):
    """How code of the host's processor of 64 bits is written, or of 32."""

    register: str
    """Begins the name of a register that holds an address."""
    size: str
    """Ends the name of an instruction on such registers."""
    saved: tuple[str, ...]
    """Registers that a call saves."""
    registers: Mapping[str, tuple[str, str]]
    """By the name of a register or a part of one: the register, and what ends an instruction on it."""

    def put(self, number: int, operand: str) -> Iterator[str]:
        """Yield what makes a register of any size, or a constant, an operand of 32 bits."""
        place = f"xa_op+{8 * number}"
        name = operand.lstrip("%")
        if (register := self.registers.get(name)) is not None:
            yield f"\tmovl $0, {place}"
            yield f"\tmov{register[1]} %{name}, {place}"
        elif name == "r11":
            yield from (f"\tpushl {_R11}", f"\tpopl {place}")
        elif "(" in operand or operand.startswith("%") or re.fullmatch(r"[a-z]+\d+", operand):
            raise InstructionError(f"{operand} is neither a register nor a constant of an XS3 instruction")
        else:
            yield f"\tmovl ${operand.lstrip('$')}, {place}"

    def take(self, number: int, operand: str) -> Iterator[str]:
        """Yield what writes an operand of 32 bits to a register, or its lowest bits to a byte."""
        place, name = f"xa_op+{8 * number}", operand.lstrip("%")
        if self.registers.get(name, ("", ""))[1] == "b":  # the rest may hold something else
            yield f"\tmovb {place}, %{name}"
        elif (word := self.word(operand)) == _R11:
            yield from (f"\tpushl {place}", f"\tpopl {word}")
        else:
            yield f"\tmovl {place}, {word}"

    def word(self, operand: str) -> str:
        """Return the name of the 32 bits of a register."""
        register = self.registers.get(operand.lstrip("%"))
        if register is None and operand == "r11":
            return _R11
        if register is None or (register[1] == "b" and self.registers is _OF_32_BITS):
            raise InstructionError(f"{operand} is not a register of an XS3 instruction")
        name = register[0]
        return f"%{name}d" if name.startswith("r") else f"%e{name}"


BITS_64 = Width("r", "q", (*(f"r{name}" for name in _KEPT), *(f"r{n}" for n in range(8, 16))), _OF_64_BITS)
BITS_32 = Width("e", "l", tuple(f"e{name}" for name in _KEPT), _OF_32_BITS)


class Rewriter:
    """Rewrites the output of a compiler."""

    def __init__(self, width: Width = BITS_64) -> None:
        self._width = width
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
            destination, source = map(self._width.word, operands)
            yield f"\tmovl {source}, {destination}"
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
        r, q, saved = self._width.register, self._width.size, self._width.saved
        yield f"\tlea{q} -{_RED_ZONE}(%{r}sp), %{r}sp"
        for number, (kind, operand) in enumerate(zip(kinds, operands, strict=True)):
            if kind == "r":
                resource = re.fullmatch(r"res\[(.*)\]", operand)
                if resource is None:
                    raise InstructionError(f"XS3 instruction '{name}': {operand} is not res[...]")
                operand = resource[1].strip()
            if kind != "d":
                yield from self._width.put(number, operand)
        yield from (f"\tpush{q} %{register}" for register in saved)
        yield from (
            f"\tpushf{q}",
            f"\tmov{q} %{r}sp, %{r}bx",
            f"\tand{q} $-16, %{r}sp",
            f"\tsub{q} $512, %{r}sp",
        )
        yield from (
            f"\tfxsave (%{r}sp)",
            f"\tcall xa_{name}",
            f"\tfxrstor (%{r}sp)",
            f"\tmov{q} %{r}bx, %{r}sp",
        )
        yield from (f"\tpopf{q}", *(f"\tpop{q} %{register}" for register in reversed(saved)))
        for number, (kind, operand) in enumerate(zip(kinds, operands, strict=True)):
            if kind in "dx":
                yield from self._width.take(number, operand)
        yield f"\tlea{q} {_RED_ZONE}(%{r}sp), %{r}sp"
        yield from (f"\t.weak {each}" for each in operands if each.endswith(_STACK_WORDS))
        if name == "waiteu":
            yield "\tjmp *xa_op"


def main(arguments: Sequence[str]) -> int:
    """Assemble as `as` does with these arguments, and return its exit code."""
    sources = [each for each in arguments if each.endswith((".s", ".S"))]
    text = "".join(Path(each).read_text() for each in sources) if sources else sys.stdin.read()
    try:
        rewritten = Rewriter(BITS_32 if "--32" in arguments else BITS_64).rewrite(text)
    except InstructionError as error:
        print(error, file=sys.stderr)
        return 1
    rest = [each for each in arguments if each not in sources and each != "-"]
    host = shutil.which("as") or "as"
    return subprocess.run((host, *rest, "-"), input=rewritten.encode(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
