// Functions of one pointer side by side.
#include <stdio.h>
#include <xcore/parallel.h>

typedef struct {
    const char *name;
    int letters;
} word_t;

void measure(void *argument) {
    word_t *word = argument;
    while (word->name[word->letters]) word->letters++;
}

int main(void) {
    word_t words[] = {{"one", 0}, {"three", 0}, {"seventeen", 0}};
    PAR_FUNCS(PFUNC(measure, &words[0]), PFUNC(measure, &words[1]), PFUNC(measure, &words[2]));
    for (int i = 0; i < 3; i++) printf("%s %d\n", words[i].name, words[i].letters);
    return 0;
}
