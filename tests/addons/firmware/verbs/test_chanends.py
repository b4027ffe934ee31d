"""Verbs of programs in C on channel ends."""

from pathlib import Path

import pytest

from aisrv.addons.firmware.whole_program import RunSettings
from tests.support.benches.c_programs import run_c


@pytest.mark.parametrize(
    ("test", "outputs", "answer"),
    [
        ("chanend_test_control_token_next_byte", "chanend_out_end_token(c)", 1),
        ("chanend_test_control_token_next_byte", "chanend_out_byte(c, 5)", 0),
        ("chanend_test_control_token_next_word", "chanend_out_byte(c, 5); chanend_out_end_token(c)", 2),
    ],
)
def test_a_token_that_is_awaited_comes_at_its_time_in_device_time(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], test: str, outputs: str, answer: int
) -> None:
    """Without the time of its token a core would go on as though it had not waited."""
    text = f"""
    DECLARE_JOB(sends, (chanend_t));
    void sends(chanend_t c) {{
        delay_ticks(1000);
        {outputs};
    }}
    static void tests(chanend_t c) {{
        unsigned found = {test}(c);
        printf("%u, %s\\n", found, get_reference_time() > 1000 ? "after it" : "before it");
        while (chanend_test_control_token_next_byte(c) != {answer != 0}) chanend_in_byte(c);
        if ({answer != 0}) chanend_check_end_token(c); else chanend_in_byte(c);
    }}
    int main(void) {{
        channel_t c = chan_alloc();
        PAR_JOBS(PJOB(tests, (c.end_a)), PJOB(sends, (c.end_b)));
        return 0;
    }}
    """.replace("True", "1").replace("False", "0")
    assert run_c(tmp_path, text, RunSettings(takes_chip_time=True)) == 0
    assert capfd.readouterr().out == f"{answer}, after it\n"
