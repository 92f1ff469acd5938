// A wall clock of its own for one process: LD_PRELOAD puts these three functions before the C library's.
// SKEW_FILE holds "OFFSET RATE", nanoseconds and a factor, and is read again at most every 5 ms. A new offset is a step;
// a new rate changes only how fast the clock goes on. The monotonic clock stays the machine's.
// Nothing here allocates or looks up symbols: an allocator asks for the time before either works.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

typedef long long nanos;

static nanos from, shown, offset, looked; // the clock shows shown + (real − from) × rate + offset
static double rate = 1;
static int busy; // somebody reads the file

static nanos real(void) {
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void look(nanos r) {
    const char *path = getenv("SKEW_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    char text[64], *rest;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return;
    text[n] = 0;
    nanos step = strtoll(text, &rest, 10);
    double speed = strtod(rest, NULL);
    if (speed <= 0) return;
    if (speed != rate) {
        shown += (nanos)((r - from) * rate);
        from = r;
        rate = speed;
    }
    offset = step;
}

static nanos now(void) {
    nanos r = real();
    // Never wait for another thread here: after a fork it may not be there to end what it began.
    if ((from == 0 || r - looked > 5000000) && __sync_bool_compare_and_swap(&busy, 0, 1)) {
        if (from == 0) from = shown = r;
        looked = r;
        look(r);
        __sync_lock_release(&busy);
    }
    return shown + (nanos)((r - from) * rate) + offset;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
    (void)zone;
    nanos n = now();
    if (tv) *tv = (struct timeval){n / 1000000000, n / 1000 % 1000000};
    return 0;
}

time_t time(time_t *t) {
    time_t n = now() / 1000000000;
    if (t) *t = n;
    return n;
}

int clock_gettime(clockid_t id, struct timespec *t) {
    if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE) return syscall(SYS_clock_gettime, id, t);
    nanos n = now();
    *t = (struct timespec){n / 1000000000, n % 1000000000};
    return 0;
}
