/* Loaded before the C library: fsync and fdatasync fail with EIO while the file named by
 * FSYNC_FAILS exists, and wait while the one named by FSYNC_STALLS does. What a dying disk does, as
 * far as a process can see it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int exists(const char *variable)
{
    const char *flag = getenv(variable);
    return flag != NULL && access(flag, F_OK) == 0;
}

static int sync_or_fail(const char *name, int descriptor)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    while (exists("FSYNC_STALLS"))
        usleep(10000);
    if (exists("FSYNC_FAILS")) {
        errno = EIO;
        return -1;
    }
    return real(descriptor);
}

int fsync(int descriptor) { return sync_or_fail("fsync", descriptor); }
int fdatasync(int descriptor) { return sync_or_fail("fdatasync", descriptor); }
