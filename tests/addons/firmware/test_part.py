"""Tasks in C on a board: with an engine, with each other, and what is said of those that do not load."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import trio
from msgspec import structs

from aisrv import digits
from aisrv.addons.firmware.board import CTaskSpec
from aisrv.board import Board, BoardError, BoardFileError, EngineSpec, TaskSpec
from aisrv.board.toml_file import parse_board, read_board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.inference.process.sandbox_layers import landlock_version, why_no_seccomp
from aisrv.xcore.core import Core
from aisrv.xcore.probes import Probe, ProbeEvent, Value
from aisrv.xcore.trace import Tracer
from aisrv.xcore.traps import Trap
from tests.support.benches.c_programs import BITS, kept_programs, need_32_bits, need_compiler
from tests.support.benches.simulation import sole_error
from tests.support.paths import ROOT
from tests.support.programs import missing

__all__ = ["kept_programs"]
pytestmark = pytest.mark.usefixtures("kept_programs")


@pytest.fixture(autouse=True)
def _compiler() -> None:
    need_compiler()


def in_c(folder: Path, text: str, name: str = "task", **settings: Any) -> CTaskSpec:
    """A task of a source that is written for it."""
    path = folder / f"{name}.c"
    path.write_text(
        "#include <aisrv_local.h>\n#include <stdio.h>\n#include <xcore/channel.h>\n" + dedent(text)
    )
    return CTaskSpec(name, c=(path,), **settings)


class Ended(Tracer):
    """Hears of the end of tasks, however long their programs run."""

    hears_verbs = False

    def __init__(self, *names: str) -> None:
        self._left = set(names)
        self.all = trio.Event()

    def core_ended(self, core: Core, _tick: int) -> None:
        self._left.discard(core.name)
        if not self._left:
            self.all.set()


async def run(*tasks: TaskSpec, folder: Path | None = None) -> None:
    board = Board(engines=(EngineSpec(arena_bytes=64 * 1024),), spi=None, tasks=tasks, folder=folder)
    ended = Ended(*(task.name for task in tasks))
    async with open_device(board, runner=inline, tracer=ended):  # which compiles them
        await ended.all.wait()


async def test_a_task_uses_an_engine(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, image = digits.model_bytes(), digits.test_images()[0]
    (tmp_path / "data.h").write_text(
        "".join(
            f"static const unsigned char {name}[] = {{{', '.join(map(str, data))}}};\n"
            for name, data in (("model", model), ("image", image.image))
        )
    )
    task = in_c(
        tmp_path,
        """
        #include "data.h"
        void task(chanend_t engine) {
            int8_t scores[10];
            uint32_t bytes, errors;
            size_t got;
            printf("%u ", aisrv_local_start_inference(engine));
            printf("%u ", aisrv_local_load_model(engine, model, sizeof model));
            aisrv_local_get_input_tensor_length(engine, 0, &bytes);
            printf("%u ", (unsigned)bytes);
            aisrv_local_set_input_tensor(engine, 0, image, sizeof image);
            printf("%u ", aisrv_local_start_inference(engine));
            aisrv_local_get_output_tensor(engine, 0, scores, sizeof scores, &got);
            int best = 0;
            for (int i = 0; i < 10; i++) if (scores[i] > scores[best]) best = i;
            aisrv_local_get_status(engine, &errors);
            printf("%d of %u, errors %u\\n", best, (unsigned)got, (unsigned)errors);
        }
        """,
        include=(tmp_path,),
        ends={"engine": "engine 0"},
    )
    await run(task)
    assert capfd.readouterr().out == f"4 0 64 0 {image.label} of 10, errors 4\n"


async def test_two_tasks_of_a_tile_share_a_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one = in_c(
        tmp_path,
        "int shared = 3;\nvoid one(chanend_t c, int n, int m) { shared += n * m; chan_out_word(c, 1); }",
        "one",
        ends={"to": "two.from_one"},
        arguments=("to", 7, 100),
    )
    two = in_c(
        tmp_path,
        """
        extern int shared;
        void second(chanend_t c) { chan_in_word(c); printf("%d %s\\n", shared, TEXT); fflush(stdout); }
        """,
        "two",
        function="second",
        defines={"TEXT": '"seen"', "ON": True, "OFF": False},
    )
    await run(one, two)
    assert capfd.readouterr().out == "703 seen\n"


@pytest.mark.parametrize("bits", BITS)
async def test_the_example_reads_what_the_one_in_python_reads(
    capfd: pytest.CaptureFixture[str], bits: int
) -> None:
    board = read_board(ROOT / "examples/firmware/director.toml")
    if bits == 32:
        need_32_bits(need_compiler())
        tasks = tuple(
            structs.replace(task, bits=32) if isinstance(task, CTaskSpec) else task for task in board.tasks
        )
        board = replace(board, tasks=tasks)
    output = ""
    with trio.fail_after(60):
        async with open_device(board, runner=inline):
            while output.count("director:") < 4:
                await trio.sleep(0.02)
                output += capfd.readouterr().out
    assert output == "director: '42 7'\ndirector: '  3 '\ndirector: '    '\ndirector: '9018'\n"


async def test_what_does_not_compile_is_told_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"(?s)broken: .*broken\.c:4:\d+: error: "):
        await run(in_c(tmp_path, "void broken(void) { return nothing; }", "broken"))


SETTINGS: Mapping[str, tuple[dict[str, Any], str]] = {
    "end": ({"arguments": ("nobody",)}, "the task 'task' has no end 'nobody'; its ends are none"),
    "many": ({"arguments": (1,) * 9}, "the task 'task' has 9 arguments; a function of C has up to 8 here"),
    "both": ({"task": "a:b"}, "the task 'task' has both `task`, in Python, and `c`"),
    "function": (
        {"function": "a b"},
        "the task 'task': 'a b' is no name of a function in C; give `function`",
    ),
    "macro": ({"defines": {"A-B": 1}}, "'A-B' is no name of a macro"),
    "sanitizer": ({"sanitize": ("thread",)}, "no sanitizer 'thread'; there are address, undefined"),
    "bits": ({"bits": 16}, "a program in C has 64 bits or 32, not 16"),
    "stack": ({"stack": 4095}, "a stack has 4096 to 16777216 bytes, not 4095"),
}


@pytest.mark.parametrize("case", SETTINGS)
async def test_settings_that_do_not_fit(tmp_path: Path, case: str) -> None:
    settings, reason = SETTINGS[case]
    with pytest.raises(BoardError) as refused:
        await run(in_c(tmp_path, "void task(void) {}", **settings))
    assert str(refused.value).endswith(reason)


async def test_tasks_of_a_tile_have_the_same_bits(tmp_path: Path) -> None:
    one, two = (in_c(tmp_path, f"void {name}(void) {{}}", name) for name in ("one", "two"))
    with pytest.raises(BoardError) as refused:
        await run(one, structs.replace(two, bits=32))
    reason = "tasks in C of a tile are one program: 'one' has 64 bits, 'two' has 32"
    assert str(refused.value).endswith(reason)


async def test_a_task_of_32_bits(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    need_32_bits(need_compiler())
    await run(
        in_c(
            tmp_path, 'void task(long n) { printf("%d %ld\\n", (int)sizeof n, n); }', bits=32, arguments=(-7,)
        )
    )
    assert capfd.readouterr().out == "4 -7\n"


async def test_a_board_file_has_all_keys(tmp_path: Path) -> None:
    (tmp_path / "board.toml").write_text(
        dedent(
            """
            [[tasks]]
            name = "blink"
            c = ["a.c", "b.c"]
            library = "lib.a"
            command = ["make", "lib.a"]
            function = "run"
            arguments = ["leds", 5]
            ends = { leds = "lamps.leds" }
            defines = { DEBUG = 1, NAME = "x" }
            include = ["api"]
            sanitize = ["address"]
            bits = 32
            stack = "128K"
            post = false
            debugger = ["gdb", "--args"]
            reads = ["data"]
            writes = ["out", "log"]
            network = true
            [[tasks]]
            name = "lamps"
            task = "a:b"
            """
        )
    )
    board = read_board(tmp_path / "board.toml")
    spec = board.tasks[0]
    assert isinstance(spec, CTaskSpec)
    assert spec.c == (tmp_path / "a.c", tmp_path / "b.c")
    assert (spec.library, spec.command) == (tmp_path / "lib.a", ("make", "lib.a"))
    assert (spec.debugger, spec.post) == (("gdb", "--args"), False)
    assert (spec.c_function, spec.arguments, spec.stack) == ("run", ("leds", 5), 128 * 1024)
    assert spec.bits == 32
    assert (spec.reads, spec.writes) == ((tmp_path / "data",), (tmp_path / "out", tmp_path / "log"))
    assert spec.network
    assert (spec.defines, spec.include, spec.sanitize) == (
        {"DEBUG": 1, "NAME": "x"},
        (tmp_path / "api",),
        ("address",),
    )
    assert board.place("tasks", 0, spec.key) == f"{tmp_path / 'board.toml'}:4: tasks[0].c"


LIBRARY = """
    [[tasks]]
    name = "blink"
    library = "build/libblink.a"
    command = ["make", "-s"]
"""
MAKEFILE = """
build/libblink.a: blink.c
\tmkdir -p build
\tgcc -std=gnu11 -c blink.c -o build/blink.o
\tar rcs $@ build/blink.o
"""


async def test_a_library_is_made_and_linked(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for program in ("make", "ar", "gcc"):
        need_compiler(program)
    (tmp_path / "board.toml").write_text(dedent(LIBRARY))
    (tmp_path / "Makefile").write_text(MAKEFILE)
    for answer in ("one", "two"):
        (tmp_path / "blink.c").write_text(f'#include <stdio.h>\nvoid blink(void) {{ puts("{answer}"); }}')
        await run(*read_board(tmp_path / "board.toml").tasks, folder=tmp_path)
        assert capfd.readouterr().out == f"{answer}\n"
    told = "the task 'blink': its command, make, runs with all rights of yours"
    assert [record.getMessage() for record in caplog.records] == [told, told]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"library": "no.a"}, r"no\.a is not there; `command` may name what makes it$"),
        ({"library": "no.so"}, r"no\.so: a shared library lies above 4 GiB, .*; make an archive, \.a$"),
        ({"command": ("make",)}, "the task 'task' has a `command`, but no `library` that it makes"),
        ({"library": "a.a", "command": ("no-such-make",)}, "'task': no-such-make: No such file or directory"),
        ({"library": "a.a", "command": ("sh", "-c", "echo why >&2; exit 3")}, "ended with 3: why$"),
    ],
)
async def test_libraries_that_are_not_there(tmp_path: Path, settings: dict[str, Any], reason: str) -> None:
    if "library" in settings:
        settings = {**settings, "library": tmp_path / settings["library"]}
    with pytest.raises(BoardError, match=reason):
        await run(in_c(tmp_path, "void task(void) {}", **settings))


async def test_a_task_runs_in_a_debugger(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    gdb = need_compiler("gdb")
    commands = ("-ex", "break task", "-ex", "run", "-ex", "continue")
    debugger = (gdb, "-q", "-nx", "--batch", *commands, "--args")
    await run(in_c(tmp_path, 'void task(int rate) { puts("ran"); }', arguments=(77,), debugger=debugger))
    output = capfd.readouterr().out
    assert "task (rate=77) at " in output
    assert "\nran\n" in output


async def test_a_debugger_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="the task 'task': no-such-debugger is not found"):
        await run(in_c(tmp_path, "void task(void) {}", debugger=("no-such-debugger",)))


async def test_a_fault_stops_the_device_with_the_place_in_c(tmp_path: Path) -> None:
    need_compiler("addr2line")
    with pytest.raises(ExceptionGroup) as failed:
        await run(in_c(tmp_path, "void task(void) { *(volatile int *)8 = 1; }"))
    assert "segmentation fault at 0x8, in task at task.c:4" in str(sole_error(failed.value, Trap))


async def test_a_task_that_exits_stops_the_device(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as failed:
        await run(in_c(tmp_path, "#include <stdlib.h>\nvoid task(void) { exit(3); }"))
    assert str(sole_error(failed.value, Trap)) == "ECALL (8): the program of tile 0 ended with 3"


async def test_where_a_task_waits_for_its_outputs_a_trap_names_their_line(tmp_path: Path) -> None:
    need_compiler("addr2line")
    text = "#include <xcore/port.h>\nvoid task(void) {\n port_out(XS1_PORT_1A, 1);\n port_in(XS1_PORT_1A); }"
    other = in_c(tmp_path, "void other(void) {}", "other", post=False)
    with pytest.raises(ExceptionGroup) as failed:
        await run(in_c(tmp_path, text), other)
    assert str(sole_error(failed.value, Trap)).endswith("is not enabled, in task at task.c:6")


TRIES = """
    #include <sys/socket.h>
    #include <unistd.h>
    void task(void) {
        printf("%d", fopen("FOLDER/data/file", "r") != NULL);
        printf("%d", fopen("FOLDER/data/file", "r+") != NULL);
        printf("%d", fopen("FOLDER/out/new", "w") != NULL);
        printf("%d", fopen("FOLDER/board.c", "r") != NULL);
        printf("%d\\n", socket(AF_INET, SOCK_STREAM, 0) >= 0);
    }
"""


@pytest.mark.parametrize(
    ("rights", "others", "could"),
    [
        ((), (), "00000"),
        (("reads",), (), "10000"),
        (("writes",), (), "00100"),
        (("reads", "writes", "network"), (), "10101"),
        ((), ("reads", "network"), "10001"),
    ],
)
async def test_tasks_of_a_tile_have_what_the_board_gives_them(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    rights: tuple[str, ...],
    others: tuple[str, ...],
    could: str,
) -> None:
    if landlock_version() < 3 or why_no_seccomp():
        missing("this machine has no Landlock or no seccomp")
    for name in ("data", "out"):
        (tmp_path / name).mkdir()
    for name in ("data/file", "board.c"):
        (tmp_path / name).write_text("x")
    given: dict[str, Any] = {"reads": (tmp_path / "data",), "writes": (tmp_path / "out",), "network": True}
    other = in_c(tmp_path, "void other(void) {}", "other", **{name: given[name] for name in others})
    task = in_c(tmp_path, TRIES.replace("FOLDER", str(tmp_path)), **{name: given[name] for name in rights})
    await run(task, other)
    assert capfd.readouterr().out == f"{could}\n"


@pytest.mark.parametrize("key", ["reads", "writes"])
async def test_a_folder_that_a_task_is_given_is_there(tmp_path: Path, key: str) -> None:
    folders: Any = (tmp_path / "none",)
    task = in_c(tmp_path, "void task(void) {}", **{key: folders})
    with pytest.raises(BoardError, match=r"the task 'task': .*none is no folder$"):
        await run(task)


@pytest.mark.parametrize("key", ["reads", "writes", "network"])
def test_a_task_in_python_is_given_nothing(tmp_path: Path, key: str) -> None:
    """It runs in the device's process, where no layer would keep it from the rest."""
    value: Any = True if key == "network" else (tmp_path,)
    with pytest.raises(BoardError, match=f"is in Python, within the device's process: `{key}` is for C$"):
        Board(tasks=(CTaskSpec("task", "module:function", **{key: value}),))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("stack = '8K'", "4: tasks[0].stack: {}`stack` is for C"),
        ("network = false", "1: tasks[0]: {}it has keys that are for C"),
        ("c = []", "1: tasks[0]: {}it has keys that are for C"),
        ("stock = 1", "4: tasks[0].stock: 'stock' is not known here; did you mean stack?"),
        ("c = ['a.c']", "4: tasks[0].c: the task 'a' has both `task`, in Python, and `c`"),
    ],
)
def test_keys_of_c_beside_a_task_in_python(line: str, message: str) -> None:
    with pytest.raises(BoardFileError) as refused:
        parse_board(f"[[tasks]]\nname = 'a'\ntask = 'm:f'\n{line}")
    in_python = "the task 'a' is in Python, within the device's process: "
    assert str(refused.value) == f"board.toml:{message.format(in_python)}"


CONFIG = """<xSCOPEconfig ioMode="basic" enabled="true">
  <Probe name="From C" type="CONTINUOUS" datatype="INT" units="mV" enabled="true"/>
  <Probe name="From Python" type="CONTINUOUS" datatype="INT" units="mV" enabled="true"/>
</xSCOPEconfig>"""
TASKS = """
from aisrv.xcore.xscope import xscope_int, xscope_number

async def record():
    xscope_int(xscope_number("From Python"), -7)
"""


class Probing(Ended):
    """Keeps what tasks record on probes."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        self.records: list[tuple[str, Value]] = []

    def probed(
        self, _core: Core | None, _tile: int, probe: Probe, _event: ProbeEvent, value: Value, _tick: int
    ) -> None:
        self.records.append((probe.name, value))


async def test_tasks_of_a_board_record_on_the_probes_of_its_config_file(tmp_path: Path) -> None:
    (tmp_path / "config.xscope").write_text(CONFIG)
    (tmp_path / "tasks_with_probes.py").write_text(TASKS)
    (tmp_path / "record.c").write_text("#include <xscope.h>\nvoid record(void) { xscope_int(FROM_C, -5); }\n")
    (tmp_path / "board.toml").write_text(
        '[node]\nxscope = "config.xscope"\n'
        '[[tasks]]\nname = "record"\nc = ["record.c"]\ntile = 0\n'
        '[[tasks]]\nname = "python"\ntask = "tasks_with_probes:record"\ntile = 0\n'
    )
    heard = Probing("record", "python")
    with trio.fail_after(30):
        async with open_device(read_board(tmp_path / "board.toml"), runner=inline, tracer=heard):
            await heard.all.wait()
    assert sorted(heard.records) == [("From C", -5), ("From Python", -7)]


async def test_a_config_file_of_xscope_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.xscope").write_text("<xSCOPEconfig><Probe/></xSCOPEconfig>")
    with pytest.raises(BoardError, match=r"config\.xscope:1: probe: name must be a name"):
        async with open_device(Board(xscope=tmp_path / "config.xscope"), runner=inline):
            pass
