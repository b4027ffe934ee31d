/* A host program on libusb. Its arguments are steps that it carries out in order; each prints one line:
   the step's name, libusb's result, and what it brought. */
#include <libusb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <fcntl.h>
#include <errno.h>

#define OUT 0x01
#define IN 0x81

static libusb_context *context;
static libusb_device_handle *device;
static unsigned char *buffer;
static const int ROOM = 20 << 20;

static void fill(unsigned char *data, int size)
{
    for (int i = 0; i < size; i++) data[i] = (unsigned char)(i * 7 + i / 512);
}

static unsigned long sum(const unsigned char *data, int size)
{
    unsigned long total = 0;
    for (int i = 0; i < size; i++) total = total * 31 + data[i];
    return total & 0xffffffff;
}

static void show(const char *name, int result, int count)
{
    printf("%s %d %d ", name, result, count);
    if (count <= 64) for (int i = 0; i < count; i++) printf("%02x", buffer[i]);
    else printf("sum=%lu", sum(buffer, count));
    printf("\n");
}

static void finished(struct libusb_transfer *transfer) { *(int *)transfer->user_data = 1; }

static struct libusb_transfer *start(unsigned char endpoint, int size, int flags, unsigned timeout, int *done)
{
    struct libusb_transfer *transfer = libusb_alloc_transfer(0);
    *done = 0;
    libusb_fill_bulk_transfer(transfer, device, endpoint, buffer, size, finished, done, timeout);
    transfer->flags = flags;
    int result = libusb_submit_transfer(transfer);
    if (result) { printf("submit %d\n", result); exit(3); }
    return transfer;
}

static void await(struct libusb_transfer *transfer, int *done, const char *name)
{
    while (!*done) libusb_handle_events_completed(context, done);
    printf("%s %d %d\n", name, transfer->status, transfer->actual_length);
    libusb_free_transfer(transfer);
}

static double cpu(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* No multiple of 512, so that the last packet is short. */
static int short_size(int i)
{
    int size = 1 + i * 37 % 4000;
    return size % 512 ? size : size + 1;
}

static void *read_forth(void *rounds)
{
    static unsigned char echo[8192], expected[4096];
    long bad = 0;
    for (int i = 0; i < *(int *)rounds; i++) {
        int count = 0, size = short_size(i);
        int result = libusb_bulk_transfer(device, IN, echo, sizeof echo, &count, 20000);
        fill(expected, size);
        bad += result != 0 || count != size || memcmp(echo, expected, size) != 0;
    }
    return (void *)bad;
}

static void threads(int rounds)
{
    pthread_t reader;
    void *bad;
    long failed = 0;
    pthread_create(&reader, NULL, read_forth, &rounds);
    for (int i = 0; i < rounds; i++) {
        int count = 0, size = short_size(i);
        fill(buffer, size);
        failed += libusb_bulk_transfer(device, OUT, buffer, size, &count, 20000) != 0 || count != size;
    }
    pthread_join(reader, &bad);
    printf("threads %ld %ld\n", failed, (long)bad);
}

static void raw(unsigned long code, long argument)
{
    int node = open("/dev/bus/usb/001/002", O_RDWR);
    int result = ioctl(node, code, argument);
    printf("raw %d %d\n", result, result < 0 ? errno : 0);
    close(node);
}

static int events;

static int came_or_went(libusb_context *ignored, libusb_device *which, libusb_hotplug_event event, void *nothing)
{
    (void)ignored, (void)nothing;
    printf("%s %d\n", event == LIBUSB_HOTPLUG_EVENT_DEVICE_ARRIVED ? "arrived" : "left",
           libusb_get_device_address(which));
    events++;
    return 0;
}

static void hotplug(int wanted)
{
    int both = LIBUSB_HOTPLUG_EVENT_DEVICE_ARRIVED | LIBUSB_HOTPLUG_EVENT_DEVICE_LEFT;
    int any = LIBUSB_HOTPLUG_MATCH_ANY;
    int result = libusb_hotplug_register_callback(context, both, 0, 0x20b1, 0xa15e, any, came_or_went, NULL, NULL);
    printf("hotplug %d\n", result);
    while (events < wanted) libusb_handle_events(context);
}

int main(int argc, char **argv)
{
    buffer = malloc(ROOM);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (libusb_init(&context)) return 1;
    device = libusb_open_device_with_vid_pid(context, 0x20b1, 0xa15e);
    if (!device) { printf("no device\n"); return 2; }
    for (int i = 1; i < argc; i++) {
        char *name = strtok(argv[i], ":"), *words[5] = {0};
        long n[5] = {0};
        for (int k = 0; k < 5 && (words[k] = strtok(NULL, ":")); k++) n[k] = strtol(words[k], NULL, 0);
        int count = 0, done, result;
        if (!strcmp(name, "claim")) printf("claim %d\n", libusb_claim_interface(device, 0));
        else if (!strcmp(name, "release")) printf("release %d\n", libusb_release_interface(device, 0));
        else if (!strcmp(name, "config")) printf("config %d\n", libusb_set_configuration(device, n[0]));
        else if (!strcmp(name, "setting")) printf("setting %d\n", libusb_set_interface_alt_setting(device, 0, n[0]));
        else if (!strcmp(name, "clear")) printf("clear %d\n", libusb_clear_halt(device, n[0]));
        else if (!strcmp(name, "reset")) printf("reset %d\n", libusb_reset_device(device));
        else if (!strcmp(name, "driver")) printf("driver %d\n", libusb_kernel_driver_active(device, 0));
        else if (!strcmp(name, "detach")) printf("detach %d\n", libusb_detach_kernel_driver(device, 0));
        else if (!strcmp(name, "speed")) printf("speed %d\n", libusb_get_device_speed(libusb_get_device(device)));
        else if (!strcmp(name, "bytes")) {
            int size = strlen(words[0]) / 2;
            for (int k = 0; k < size; k++) sscanf(words[0] + 2 * k, "%2hhx", buffer + k);
            result = libusb_bulk_transfer(device, OUT, buffer, size, &count, 5000);
            printf("bytes %d %d\n", result, count);
        } else if (!strcmp(name, "write")) {          /* endpoint, size, time-out in ms */
            fill(buffer, n[1]);
            result = libusb_bulk_transfer(device, n[0], buffer, n[1], &count, n[2]);
            printf("write %d %d sum=%lu\n", result, count, sum(buffer, n[1]));
        } else if (!strcmp(name, "zlp")) {
            fill(buffer, n[0]);
            await(start(OUT, n[0], LIBUSB_TRANSFER_ADD_ZERO_PACKET, 5000, &done), &done, "zlp");
        } else if (!strcmp(name, "read")) {           /* size, time-out in ms */
            result = libusb_bulk_transfer(device, IN, buffer, n[0], &count, n[1]);
            show("read", result, count);
        } else if (!strcmp(name, "control")) {        /* type, request, value, index, length */
            memset(buffer, 0, n[4]);
            result = libusb_control_transfer(device, n[0], n[1], n[2], n[3], buffer, n[4], 5000);
            show("control", result, result > 0 && n[0] & 0x80 ? result : 0);
        } else if (!strcmp(name, "cancel")) {
            struct libusb_transfer *transfer = start(IN, n[0], 0, 0, &done);
            printf("cancelling %d\n", libusb_cancel_transfer(transfer));
            await(transfer, &done, "cancelled");
        } else if (!strcmp(name, "threads")) threads(n[0]);
        else if (!strcmp(name, "idle")) {             /* time in ms: what waiting for it costs */
            double before = cpu();
            result = libusb_bulk_transfer(device, IN, buffer, 512, &count, n[0]);
            printf("idle %d %.6f\n", result, cpu() - before);
        } else if (!strcmp(name, "hotplug")) hotplug(n[0]); /* until so many devices have come or gone */
        else if (!strcmp(name, "raw")) raw(n[0], n[1]);
        else if (!strcmp(name, "loop")) for (;;) {    /* until killed */
            fill(buffer, n[0]);
            libusb_bulk_transfer(device, OUT, buffer, n[0], &count, 5000);
            libusb_bulk_transfer(device, IN, buffer, n[0] + 512, &count, 5000);
        } else return 4;
    }
    libusb_close(device);
    libusb_exit(context);
    return 0;
}
