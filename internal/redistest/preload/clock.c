// The wall clock of a server that a test steps: whatever stands in the file that CLOCK_FILE names,
// in nanoseconds, is added to it. The monotonic clock goes on as it is, as when a machine's clock
// is set.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *ahead;

__attribute__((constructor)) static void begin(void) {
	const char *name = getenv("CLOCK_FILE");
	int file = name ? open(name, O_RDONLY) : -1;
	void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
	if (mapped != MAP_FAILED) ahead = mapped;
	if (file >= 0) close(file);
}

int clock_gettime(clockid_t id, struct timespec *t) {
	int failed = (int)syscall(SYS_clock_gettime, id, t);
	if (failed || !ahead || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
	long long second = 1000000000, now = t->tv_sec * second + t->tv_nsec + *ahead;
	t->tv_sec = (time_t)(now / second);
	t->tv_nsec = (long)(now % second);
	return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	struct timespec now;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t) {
	struct timespec now;
	if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
	if (t) *t = now.tv_sec;
	return now.tv_sec;
}
