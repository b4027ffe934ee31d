/* Output whose lines begin with tile and core. What a core prints is flushed before another one runs. */
#include "output.h"

#include <stdio.h>
#include <stdlib.h>

void output_end_line(slot_t *slot) {
    if (!slot->line_bytes) return;
    dprintf(1, "tile %u core %u: %.*s\n", runtime_tile.number, slot->core, (int)slot->line_bytes, slot->line);
    slot->line_bytes = 0;
}
static ssize_t write_lines(void *unused, const char *data, size_t bytes) {
    slot_t *slot = &runtime_tile.slots[runtime_tile.current < 0 ? 0 : runtime_tile.current];
    (void)unused;
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] == '\n' && !slot->line_bytes) {
            dprintf(1, "tile %u core %u:\n", runtime_tile.number, slot->core);
        } else if (data[i] == '\n') {
            output_end_line(slot);
        } else {
            slot->line[slot->line_bytes++] = data[i];
            if (slot->line_bytes == LINE_BYTES) output_end_line(slot);
        }
    }
    return (ssize_t)bytes;
}
static void end_lines(void) {
    fflush(stdout);
    for (int number = 0; number < SLOTS; number++) output_end_line(&runtime_tile.slots[number]);
}
void output_begin_lines(void) {
    stdout = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_lines});
    if (!stdout) runtime_die("no output");
    atexit(end_lines);
}
