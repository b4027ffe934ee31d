// Control tokens between data: who receives looks whether one comes next, as a byte and as a word.
#include <stdio.h>
#include <xcore/chanend.h>
#include <xcore/parallel.h>

enum { PAUSE = 0x10 };

DECLARE_JOB(talk, (chanend_t));
DECLARE_JOB(hear, (chanend_t));

void talk(chanend_t c) {
    chanend_out_byte(c, 'a');
    chanend_out_control_token(c, PAUSE);
    chanend_out_word(c, 0x01020304);
    chanend_out_byte(c, 'z');
    chanend_out_end_token(c);
}

void hear(chanend_t c) {
    printf("%d ", chanend_test_control_token_next_byte(c));
    putchar(chanend_in_byte(c));
    printf(" %d ", chanend_test_control_token_next_byte(c));
    chanend_check_control_token(c, PAUSE);
    printf("%d ", chanend_test_control_token_next_word(c));
    printf("%08x ", (unsigned)chanend_in_word(c));
    printf("%d ", chanend_test_control_token_next_word(c));
    putchar(chanend_in_byte(c));
    printf(" %d\n", chanend_in_control_token(c));
}

int main(void) {
    chanend_t a = chanend_alloc(), b = chanend_alloc();
    chanend_set_dest(a, b);
    chanend_set_dest(b, a);
    PAR_JOBS(PJOB(talk, (a)), PJOB(hear, (b)));
    printf("%d\n", chanend_get_dest(b) == a);
    chanend_free(a);
    chanend_free(b);
    return 0;
}
