/* A host program on spidev: makes the calls that its arguments name, one line of result for each.
   Results are what the call returned and, where that is negative, the errno. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/spi/spidev.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define MOST 511
#define BYTES (1 << 16)

static uint8_t out[BYTES], in[BYTES];
static int fd;

static void say(const char *name, long result)
{
    printf("%s %ld", name, result);
    if (result < 0)
        printf(" errno %d", errno);
}

static void show(const uint8_t *data, long size)
{
    putchar(' ');
    for (long i = 0; i < size && i < 16; i++)
        printf("%02x", data[i]);
}

/* Numbers from a text like 3:0x10:-1; returns how many there were. */
static int numbers(char *text, unsigned long long *values, int most)
{
    int count = 0;
    for (char *each = strtok(text, ":"); each && count < most; each = strtok(NULL, ":"))
        values[count++] = strtoull(each, NULL, 0);
    return count;
}

/* Transfers from a text like 3t+5rc: a length, then t to send, r to receive, c to change chip select, and
   with numbers d for a delay, s for a speed, b for bits per word, n for lines out. */
static void message(char *text)
{
    static struct spi_ioc_transfer transfers[MOST];
    int count = 0;
    long at = 0;
    memset(transfers, 0, sizeof transfers);
    memset(in, 0xee, sizeof in);
    for (char *each = strtok(text, "+"); each && count < MOST; each = strtok(NULL, "+")) {
        struct spi_ioc_transfer *transfer = &transfers[count++];
        char *rest;
        transfer->len = strtoul(each, &rest, 10);
        while (*rest) {
            char letter = *rest++;
            if (letter == 't')
                transfer->tx_buf = (uintptr_t)(out + at);
            else if (letter == 'r')
                transfer->rx_buf = (uintptr_t)(in + at);
            else if (letter == 'c')
                transfer->cs_change = 1;
            else if (letter == 'd')
                transfer->delay_usecs = strtoul(rest, &rest, 10);
            else if (letter == 's')
                transfer->speed_hz = strtoul(rest, &rest, 10);
            else if (letter == 'b')
                transfer->bits_per_word = strtoul(rest, &rest, 10);
            else if (letter == 'n')
                transfer->tx_nbits = strtoul(rest, &rest, 10);
        }
        at = (at + transfer->len) % (BYTES / 2);
    }
    long result = ioctl(fd, SPI_IOC_MESSAGE(count), transfers);
    say("message", result);
    at = 0;
    for (int i = 0; result >= 0 && i < count; i++) {
        if (transfers[i].rx_buf)
            show(in + at, transfers[i].len);
        at = (at + transfers[i].len) % (BYTES / 2);
    }
}

/* Transfers of one byte each, as many as asked for, all within one transaction. */
static void many(unsigned count)
{
    static struct spi_ioc_transfer transfers[MOST];
    memset(transfers, 0, sizeof transfers);
    for (unsigned i = 0; i < count && i < MOST; i++) {
        transfers[i].tx_buf = (uintptr_t)(out + i);
        transfers[i].rx_buf = (uintptr_t)(in + i);
        transfers[i].len = 1;
    }
    long result = ioctl(fd, SPI_IOC_MESSAGE(count), transfers);
    say("many", result);
    if (result > 0)
        show(in + result - 4, 4);
}

static void pointers(unsigned long long tx, unsigned long long rx, unsigned length)
{
    struct spi_ioc_transfer transfer = {.tx_buf = tx, .rx_buf = rx, .len = length};
    say("pointers", ioctl(fd, SPI_IOC_MESSAGE(1), &transfer));
}

static void bench(unsigned count, unsigned size)
{
    struct spi_ioc_transfer transfer = {.tx_buf = (uintptr_t)out, .rx_buf = (uintptr_t)in, .len = size};
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (unsigned i = 0; i < count; i++)
        if (ioctl(fd, SPI_IOC_MESSAGE(1), &transfer) < 0)
            perror("bench");
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = end.tv_sec - start.tv_sec + 1e-9 * (end.tv_nsec - start.tv_nsec);
    printf("bench %.1f", 1e6 * seconds / count);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < BYTES; i++)
        out[i] = 7 * i + 3;
    fd = open("/dev/spidev0.0", O_RDWR);
    if (fd < 0) {
        perror("open");
        return 1;
    }
    for (int i = 1; i < argc; i++) {
        char *name = strtok(argv[i], "="), *rest = strtok(NULL, "");
        unsigned long long v[4] = {0};
        if (!strcmp(name, "message")) {
            message(rest);
        } else {
            int count = rest ? numbers(rest, v, 4) : 0;
            (void)count;
            uint32_t word = v[1];
            if (!strcmp(name, "codes")) {
                printf("codes %lx %lx %lx %lx %lx %lx %lx %lx %lx %lx", SPI_IOC_RD_MODE, SPI_IOC_WR_MODE,
                       SPI_IOC_RD_LSB_FIRST, SPI_IOC_WR_LSB_FIRST, SPI_IOC_RD_BITS_PER_WORD,
                       SPI_IOC_WR_BITS_PER_WORD, SPI_IOC_RD_MAX_SPEED_HZ, SPI_IOC_WR_MAX_SPEED_HZ,
                       SPI_IOC_RD_MODE32, SPI_IOC_WR_MODE32);
                printf(" %lx %lx", SPI_IOC_MESSAGE(1), SPI_IOC_MESSAGE(511));
            } else if (!strcmp(name, "write")) {
                say("write", write(fd, out, v[0]));
            } else if (!strcmp(name, "read")) {
                long result = read(fd, in, v[0]);
                say("read", result);
                show(in, result);
            } else if (!strcmp(name, "writefrom")) {
                say("writefrom", write(fd, (void *)(uintptr_t)v[0], v[1]));
            } else if (!strcmp(name, "readto")) {
                say("readto", read(fd, (void *)(uintptr_t)v[0], v[1]));
            } else if (!strcmp(name, "get")) {
                word = 0;
                say("get", ioctl(fd, v[0], &word));
                printf(" %u", word);
            } else if (!strcmp(name, "put")) {
                say("put", ioctl(fd, v[0], &word));
            } else if (!strcmp(name, "ioctl")) {
                say("ioctl", ioctl(fd, v[0], (void *)(uintptr_t)v[1]));
            } else if (!strcmp(name, "many")) {
                many(v[0]);
            } else if (!strcmp(name, "pointers")) {
                pointers(v[0], v[1], v[2]);
            } else if (!strcmp(name, "bench")) {
                bench(v[0], v[1]);
            } else if (!strcmp(name, "hang")) {
                printf("hanging\n");
                fflush(stdout);
                pause();
            } else {
                fprintf(stderr, "no step %s\n", name);
                return 2;
            }
        }
        putchar('\n');
        fflush(stdout);
    }
    return 0;
}
