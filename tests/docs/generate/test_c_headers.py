"""What headers of C declare: from a text with each kind of it, and as the compiler sees ours."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from aisrv.addons.firmware.compiler import INCLUDE
from docs.generate.c_headers import declared, headers, read_names
from tests.support.benches.c_programs import need_compiler

TEXT = """
/* A comment: int commented(void); */
#ifndef AISRV_A_H
#define AISRV_A_H
#include <xs1.h>
#define XC_OWN(a) a
#define SHOWN(...) \\
    int hidden(void);
typedef resource_t a_t;
typedef struct a_s { int field; void (*hook)(int); } two_t;
typedef enum { RED = 1, GREEN } color_t;
typedef void (*callback_t)(void *);
XC_MISSING(refused, "use "
    "another; or none")
XC_BEGIN
int first(a_t a, two_t *b); // and int second(void);
const char *text(void (*callback)(int), unsigned n);
static inline unsigned short_one(unsigned a) { return first(a); }
void with_attribute(int) __attribute__((noreturn));
void xc_own(void);
XC_END
#endif
"""


def test_each_kind_of_declaration_is_found_in_order() -> None:
    assert dict(read_names(TEXT)) == {
        **dict.fromkeys(("SHOWN", "a_t", "two_t", "color_t", "callback_t"), ""),
        "refused": "use another; or none",
        **dict.fromkeys(("first", "text", "short_one", "with_attribute"), ""),
    }


def compiled(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    source = folder / "names.c"
    source.write_text(text)
    command = [need_compiler(), "-std=gnu11", "-w", f"-I{INCLUDE}", *options, str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


@cache
def preprocessed(header: str) -> str:
    """Return what the preprocessor makes of a header, with the macros that are defined."""
    command = [need_compiler(), "-std=gnu11", f"-I{INCLUDE}", "-E", "-dD", "-x", "c", "-"]
    text = f"#include <{header}>\n"
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("header", headers())
def test_the_compiler_knows_what_is_there_and_refuses_the_rest(tmp_path: Path, header: str) -> None:
    names = declared(header)
    include = f"#include <{header}>\n"
    macros = set(re.findall(r"^#define (\w+)", preprocessed(header), re.MULTILINE))
    there = [name for name, why in names.items() if not why and name not in macros]
    lines = [f"__typeof__({name}) *known{number};" for number, name in enumerate(there)]
    done = compiled(tmp_path, "\n".join((include, *lines)), "-fsyntax-only")
    assert done.stderr == ""
    refused = {name: why for name, why in names.items() if why}
    if not refused:
        return
    calls = [f"void call{number}(void) {{ {name}(); }}" for number, name in enumerate(refused)]
    said = compiled(tmp_path, "\n".join((include, *calls)), "-c").stderr
    for name, why in refused.items():
        assert f"{name} is not there on the host: {why}" in said


def test_no_prototype_of_ours_is_missed() -> None:
    for header in headers():
        text = re.sub(r"^#(define|undef) .*\n", "", preprocessed(header), flags=re.MULTILINE)
        own = re.split(r"^# \d+ (\"[^\"]*\").*$", text, flags=re.MULTILINE)
        pairs = zip(own[1::2], own[2::2], strict=True)
        body = "".join(part for place, part in pairs if place == f'"{INCLUDE / header}"')
        functions = set(re.findall(r"\b(\w+)\([^(){}]*\)\s*(?:__attribute__\(\(.*?\)\)\s*)?;", body))
        shown = {name for name in functions if not name.startswith(("xc_", "_", "error"))}
        assert shown - set(declared(header)) == set(), header
