/* Loaded before the C library: fsync, fdatasync and writes to a file with O_DSYNC fail with EIO while the file named by
 * FSYNC_FAILS exists, and wait while the one named by FSYNC_STALLS does. What a dying disk does, as
 * far as a process can see it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int exists(const char *variable)
{
    const char *flag = getenv(variable);
    return flag != NULL && access(flag, F_OK) == 0;
}

static int waits_and_fails(void)
{
    while (exists("FSYNC_STALLS"))
        usleep(10000);
    if (!exists("FSYNC_FAILS"))
        return 0;
    errno = EIO;
    return 1;
}

static int sync_or_fail(const char *name, int descriptor)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return waits_and_fails() ? -1 : real(descriptor);
}

int fsync(int descriptor) { return sync_or_fail("fsync", descriptor); }
int fdatasync(int descriptor) { return sync_or_fail("fdatasync", descriptor); }

static int is_flushed(int descriptor)
{
    int flags = fcntl(descriptor, F_GETFL);
    return flags >= 0 && (flags & O_DSYNC) == O_DSYNC;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t length, off_t at)
{
    ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");
    if (is_flushed(descriptor) && waits_and_fails())
        return -1;
    return real(descriptor, bytes, length, at);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t length, off64_t at)
{
    ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    if (is_flushed(descriptor) && waits_and_fails())
        return -1;
    return real(descriptor, bytes, length, at);
}
