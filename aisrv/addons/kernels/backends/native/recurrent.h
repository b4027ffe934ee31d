/* Recurrent layers over a target's products of rows: included once for each. */

static void NAME(step_lstm)(const struct lstm *step, const int8_t *input, int8_t *state, int16_t *cells) {
    const int64_t units = step->units, rows = 4 * units;
    memset(step->row, 0, larger(step->input_width, step->state_width) * sizeof(int16_t));
    widen_row(step->row, input, step->inputs, step->input_zero);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t sum = NAME(row)(step->row, step->weights + i * step->input_width, step->input_width) + step->bias[i];
        step->gates[i] = within(rescaled(sum, step->input_factors + i), INT16_MIN, INT16_MAX);
    }
    memset(step->row, 0, larger(step->input_width, step->state_width) * sizeof(int16_t));
    widen_row(step->row, state, units, step->state_zero);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t sum = NAME(row)(step->row, step->recurrent + i * step->state_width, step->state_width);
        const int64_t past = within(rescaled(sum, step->state_factors + i), INT16_MIN, INT16_MAX);
        step->gates[i] = within(step->gates[i] + past, INT16_MIN, INT16_MAX);
    }
    for (int64_t i = 0; i < units; i++) {
        const int64_t given = step->sigmoid[(uint16_t)step->gates[i]];
        const int64_t kept = step->sigmoid[(uint16_t)step->gates[units + i]];
        const int64_t shown = step->sigmoid[(uint16_t)step->gates[2 * units + i]];
        const int64_t candidate = step->tanh[(uint16_t)step->gates[3 * units + i]];
        const int64_t old = within(rescaled(kept * cells[i], step->factors), INT16_MIN, INT16_MAX);
        const int64_t new = within(rescaled(given * candidate, step->factors + 1), INT16_MIN, INT16_MAX);
        const int64_t cell = within(old + new, step->low, step->high);
        cells[i] = (int16_t)cell;
        const int64_t value = rescaled(shown * step->cell_tanh[(uint16_t)cell], step->factors + 2);
        state[i] = (int8_t)within(value + step->state_zero, INT8_MIN, INT8_MAX);
    }
}

static void NAME(run_lstm)(const void *arguments, const struct share *share) {
    const struct lstm *step = arguments;
    if (share->piece) return;
    for (int64_t time = 0; time < step->steps; time++)
        for (int64_t i = 0; i < step->batch; i++) {
            int8_t *state = step->state + i * step->units;
            NAME(step_lstm)(step, step->input + time * step->input_step + i * step->input_batch, state,
                      step->cells + i * step->units);
            memcpy(step->output + time * step->output_step + i * step->output_batch, state, step->units);
        }
}

static void NAME(run_svdf)(const void *arguments, const struct share *share) {
    const struct svdf *step = arguments;
    const int64_t memory = step->memory, filters = step->units * step->rank;
    const int64_t low = step->is_wide ? INT16_MIN : INT8_MIN, high = step->is_wide ? INT16_MAX : INT8_MAX;
    const int64_t size = step->is_wide ? sizeof(int16_t) : sizeof(int8_t);
    if (share->piece) return;
    for (int64_t i = 0; i < step->batch; i++) {
        int8_t *state = (int8_t *)step->state + i * filters * memory * size;
        memset(step->row, 0, step->width * sizeof(int16_t));
        widen_row(step->row, step->input + i * step->inputs, step->inputs, step->input_zero);
        for (int64_t unit = 0; unit < step->units; unit++) {
            int64_t total = step->bias[unit];
            for (int64_t filter = unit * step->rank; filter < (unit + 1) * step->rank; filter++) {
                const int64_t sum = NAME(row)(step->row, step->features + filter * step->width, step->width);
                const int64_t newest = within(rescaled(sum, step->factors), low, high) + step->state_zero;
                int8_t *past = state + filter * memory * size;
                memmove(past, past + size, (memory - 1) * size);
                /* As TFLM did until late 2026: a zero point may take a state past its bounds, where it wraps. */
                if (step->is_wide)
                    ((int16_t *)past)[memory - 1] = (int16_t)newest;
                else
                    past[memory - 1] = (int8_t)newest;
                for (int64_t age = 0; age < memory; age++) {
                    const int64_t value = step->is_wide ? ((int16_t *)past)[age] : past[age];
                    total += (value - step->state_zero) * step->times[filter * memory + age];
                }
            }
            const int64_t value = word(rescaled(total, step->factors + 1) + step->output_zero);
            step->output[i * step->units + unit] = (int8_t)within(value, INT8_MIN, INT8_MAX);
        }
    }
}
