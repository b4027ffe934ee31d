"""xscope in C: what programs record, by every function of the header, and data from the host."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aisrv.addons.firmware.compiler import Program, Unit, build
from aisrv.addons.firmware.whole_program import RunSettings, run_whole_programs
from aisrv.xcore.core import Core
from aisrv.xcore.probes import DataType, Probe, ProbeEvent, ProbeKind, Value
from aisrv.xcore.trace import Tracer
from aisrv.xcore.traps import Deadlock, Trap
from tests.support.benches.c_programs import CASE, kept_programs, need_compiler, one_of, run_c

__all__ = ["kept_programs"]
pytestmark = pytest.mark.usefixtures("kept_programs")

LEVEL = Probe("level", ProbeKind.CONTINUOUS, DataType.INT)
V, START, STOP = ProbeEvent.VALUE, ProbeEvent.START, ProbeEvent.STOP


class Hearing(Tracer):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.records: list[tuple[int, str, ProbeEvent, Value, int]] = []
        self.probes: list[tuple[int, Probe]] = []

    def probe_registered(self, tile: int, probe: Probe) -> None:
        self.probes.append((tile, probe))

    def probed(
        self, core: Core | None, tile: int, probe: Probe, event: ProbeEvent, value: Value, tick: int
    ) -> None:
        self.records.append((tile, probe.name, event, value, tick))


def run(
    folder: Path, text: str, probes: Sequence[Probe] | None = None, host_data: bytes = b""
) -> tuple[int, Hearing]:
    """Run a program; return its exit code and what it recorded."""
    source = folder / "main.c"
    source.write_text(f"#include <stdio.h>\n#include <xcore/select.h>\n#include <xscope.h>\n{text}")
    heard = Hearing()

    @asynccontextmanager
    async def tracers() -> AsyncIterator[Sequence[Tracer]]:
        yield [heard]

    program = build(Program((Unit((source,)),)), need_compiler())
    settings = RunSettings(probes=None if probes is None else tuple(probes), host_data=host_data)
    programs = {0: program, 1: program} if "main_tile1" in text else {0: program}
    return run_whole_programs(programs, settings, tracers), heard


@pytest.mark.parametrize("core", ["", "core_"])
def test_each_function_records_what_it_says(tmp_path: Path, core: str) -> None:
    text = """
        int main(void) {
            xscope_CORE_char(0, 255); xscope_CORE_short(0, 65535); xscope_CORE_int(0, -2);
            xscope_CORE_longlong(0, -3); xscope_CORE_longlong(0, 1ull << 40);
            xscope_CORE_float(0, 0.5f); xscope_CORE_double(0, 0.1);
            xscope_CORE_bytes(0, 3, (const unsigned char *)"a\\0b"); xscope_CORE_bytes(0, 0, 0);
            xscope_CORE_start(0); xscope_CORE_stop(0); xscope_CORE_start_int(0, 7);
            xscope_CORE_stop_int(0, 8);
            return 0;
        }"""
    _, heard = run(tmp_path, text.replace("CORE_", core), [LEVEL])
    values: list[tuple[ProbeEvent, Value]] = [
        *((V, value) for value in (255, 65535, -2, -3, 1 << 40, 0.5, 0.1, b"a\0b", b"")),
        *((START, None), (STOP, None), (START, 7), (STOP, 8)),
    ]
    assert [(event, value) for _, _, event, value, _ in heard.records] == values


def test_records_stand_at_their_ticks_and_stop_while_disabled(tmp_path: Path) -> None:
    text = """
        #include <xcore/hwtimer.h>
        int main(void) {
            xscope_int(0, 1); delay_ticks(99); xscope_int(0, 2);
            xscope_disable(); xscope_int(0, 3); xscope_ping(); xscope_enable();
            xscope_mode_lossless(); xscope_mode_lossy(); xscope_config_io(XSCOPE_IO_TIMED);
            xscope_int(-1, 4); xscope_ping();
            return XSCOPE_PROBE_ENABLED(0) + XSCOPE_PROBE_ENABLED(-1);
        }"""
    code, heard = run(tmp_path, text, [LEVEL])
    assert code == 1
    assert heard.records == [
        (0, "level", V, 1, 0),
        (0, "level", V, 2, 100),
        (0, "ping", V, None, 100),
    ]


def test_xscope_user_init_registers_probes_of_each_tile_before_its_main(tmp_path: Path) -> None:
    text = """
        void xscope_user_init(void) {
            xscope_register(2, XSCOPE_DISCRETE, "A probe", XSCOPE_UINT, "value",
                            XSCOPE_STATEMACHINE, "State", XSCOPE_NONE, "");
        }
        void main_tile0(chanend_t c) { xscope_int(0, 4000000000u); }
        void main_tile1(chanend_t c) { xscope_start(1); }"""
    _, heard = run(tmp_path, text)
    probes = [
        Probe("A probe", ProbeKind.DISCRETE, DataType.UINT, "value"),
        Probe("State", ProbeKind.STATEMACHINE, DataType.NONE),
    ]
    assert sorted(heard.probes, key=lambda each: each[0]) == [(t, p) for t in (0, 1) for p in probes]
    assert sorted(heard.records) == [
        (0, "A probe", V, 4_000_000_000, 0),
        (1, "State", START, None, 0),
    ]


TRAPS = {
    'xscope_register(1, 9, "x", XSCOPE_INT, "")': "xscope_register: 9 is not a valid ProbeKind",
    'xscope_register(1, XSCOPE_DISCRETE, "x", 4, "")': "xscope_register: 4 is not a valid DataType",
    "xscope_bytes(0, 65537, big)": "xscope_bytes: too many bytes",
    "xscope_register(1, 1, big, 1, big)": "xscope_register: names are too long",
    "xscope_connect_data_from_host(7)": "which is not a resource of this program",
    "c = chanend_alloc(), xscope_connect_data_from_host(c), xscope_connect_data_from_host(c)": "has the data",
}


@pytest.mark.parametrize("call", TRAPS)
def test_what_traps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    monkeypatch.setenv(CASE, str(list(TRAPS).index(call)))
    text = f"""
        #include <xscope.h>
        static unsigned char big[70000];
        int main(void) {{ chanend_t c = 0; memset(big, 'x', 69999); {one_of(TRAPS)} return (int)c; }}"""
    with pytest.raises(Trap, match=TRAPS[call]):
        run_c(tmp_path, text, RunSettings(stops_at_trap=True), options=["-w"])


def test_a_flood_of_records_comes_whole_and_in_order(tmp_path: Path) -> None:
    text = "int main(void) { for (int i = 0; i < 20000; i++) xscope_int(i % 300 ? 0 : 9, i); return 0; }"
    _, heard = run(tmp_path, text, [LEVEL])
    assert [value for _, _, _, value, _ in heard.records] == [i for i in range(20_000) if i % 300]


def test_data_from_the_host_comes_in_packets_beside_other_events(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """
        int main(void) {
            chanend_t c = chanend_alloc();
            xscope_connect_data_from_host(c);
            int n = 0, sum = 0, packets = 0;
            char buf[256];
            SELECT_RES(CASE_THEN(c, from_host)) {
                from_host: xscope_data_from_host(c, buf, &n);
                printf("%d:%d ", packets++, n);
                for (int i = 0; i < n; i++) sum += (unsigned char)buf[i];
                if (n == 256) continue;
                break;
            }
            printf("%d", sum);
            return 0;
        }"""
    data = bytes(range(256)) * 2 + b"end"
    code, _ = run(tmp_path, text, host_data=data)
    assert (code, capfd.readouterr().out) == (0, f"0:256 1:256 2:3 {sum(data)}")


def test_a_program_that_leaves_data_of_the_host_ends_and_one_that_waits_for_more_is_in_deadlock(
    tmp_path: Path,
) -> None:
    take = """
        int main(void) {
            chanend_t c = chanend_alloc();
            xscope_connect_data_from_host(c);
            char buf[256]; int n;
            for (int i = 0; i < PACKETS; i++) xscope_data_from_host(c, buf, &n);
            return 0;
        }"""
    assert run(tmp_path, take.replace("PACKETS", "1"), host_data=bytes(2000))[0] == 0
    with pytest.raises(Deadlock, match="no core can run again"):
        run(tmp_path, take.replace("PACKETS", "3"), host_data=bytes(512))
