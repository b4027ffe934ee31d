// A group of threads that start together, as many as there are cores for.
#include <stdio.h>
#include <xcore/thread.h>

enum { MOST = 8, WORDS = 256 };
static uint32_t memory[MOST][WORDS];
static unsigned marks[MOST];

static void mark(void *argument) { (*(unsigned *)argument)++; }

int main(void) {
    threadgroup_t group = thread_group_alloc();
    int count = 1;
    thread_group_add(group, mark, &marks[0], stack_base(memory[0], WORDS));
    while (count < MOST && thread_group_try_add(group, mark, &marks[count], stack_base(memory[count], WORDS))) count++;
    thread_group_start(group);
    thread_group_wait_and_free(group);
    for (int i = 0; i < MOST; i++) printf("%u", marks[i]);
    printf(" by %d threads\n", count);
    return 0;
}
