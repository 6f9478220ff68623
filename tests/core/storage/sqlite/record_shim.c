/* Loaded before the C library: writes down what a process does to the files of one directory
 * (RECORD_DIR), in order, into RECORD_LOG, before it is done. What is in the log is what a disk
 * was told. A record is a line, followed by its bytes if it is a write:
 *
 *     open NAME            a file was made or opened for writing
 *     write NAME AT LENGTH
 *     truncate NAME LENGTH
 *     sync NAME            of the directory itself: "sync ."
 *     unlink NAME
 *     rename NAME/NEW-NAME
 *
 * A write to a file that was opened with O_DSYNC is followed by its sync, once it has returned.
 * One thread at a time is enough for the process that is recorded, but costs nothing to keep. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define FILES_MAX 1024
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char names[FILES_MAX][NAME_MAX + 1]; /* by descriptor; "" is a file of no interest */
static int is_flushed[FILES_MAX]; /* opened with O_DSYNC */
static FILE *log_file;

static const char *name_in_directory(const char *path)
{
    const char *directory = getenv("RECORD_DIR");
    size_t length = directory == NULL ? 0 : strlen(directory);
    if (length == 0 || strncmp(path, directory, length) != 0)
        return NULL;
    if (path[length] == '\0')
        return ".";
    return path[length] == '/' ? path + length + 1 : NULL;
}

static void record(const char *what, const char *name, long long at, long long length,
                   const void *bytes)
{
    pthread_mutex_lock(&lock);
    if (log_file == NULL)
        log_file = fopen(getenv("RECORD_LOG"), "ab");
    fprintf(log_file, "%s %s %lld %lld\n", what, name, at, length);
    if (bytes != NULL)
        fwrite(bytes, 1, (size_t)length, log_file);
    fflush(log_file);
    pthread_mutex_unlock(&lock);
}

static const char *name_of(int descriptor)
{
    int is_known = descriptor >= 0 && descriptor < FILES_MAX && names[descriptor][0] != '\0';
    return is_known ? names[descriptor] : NULL;
}

static int opened(int descriptor, const char *path, int flags)
{
    const char *name = name_in_directory(path);
    if (descriptor >= 0 && descriptor < FILES_MAX) {
        names[descriptor][0] = '\0';
        is_flushed[descriptor] = (flags & O_DSYNC) == O_DSYNC;
        if (name != NULL) {
            snprintf(names[descriptor], sizeof names[descriptor], "%s", name);
            if ((flags & O_ACCMODE) != O_RDONLY)
                record("open", name, 0, 0, NULL);
        }
    }
    return descriptor;
}

static int mode_of(int flags, va_list rest)
{
    return flags & O_CREAT ? va_arg(rest, int) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int mode = mode_of(flags, rest);
    va_end(rest);
    return opened(NEXT(open)(path, flags, mode), path, flags);
}

int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int mode = mode_of(flags, rest);
    va_end(rest);
    return opened(NEXT(open64)(path, flags, mode), path, flags);
}

int close(int descriptor)
{
    if (descriptor >= 0 && descriptor < FILES_MAX)
        names[descriptor][0] = '\0';
    return NEXT(close)(descriptor);
}

static ssize_t written(int descriptor, ssize_t result)
{
    if (name_of(descriptor) != NULL && is_flushed[descriptor] && result >= 0)
        record("sync", name_of(descriptor), 0, 0, NULL);
    return result;
}

ssize_t write(int descriptor, const void *bytes, size_t length)
{
    const char *name = name_of(descriptor);
    if (name != NULL)
        record("write", name, lseek(descriptor, 0, SEEK_CUR), (long long)length, bytes);
    return NEXT(write)(descriptor, bytes, length);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t length, off_t at)
{
    const char *name = name_of(descriptor);
    if (name != NULL)
        record("write", name, at, (long long)length, bytes);
    return written(descriptor, NEXT(pwrite)(descriptor, bytes, length, at));
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t length, off64_t at)
{
    const char *name = name_of(descriptor);
    if (name != NULL)
        record("write", name, at, (long long)length, bytes);
    return written(descriptor, NEXT(pwrite64)(descriptor, bytes, length, at));
}

int ftruncate(int descriptor, off_t length)
{
    const char *name = name_of(descriptor);
    if (name != NULL)
        record("truncate", name, 0, length, NULL);
    return NEXT(ftruncate)(descriptor, length);
}

int ftruncate64(int descriptor, off64_t length)
{
    const char *name = name_of(descriptor);
    if (name != NULL)
        record("truncate", name, 0, length, NULL);
    return NEXT(ftruncate64)(descriptor, length);
}

int fsync(int descriptor)
{
    int result = NEXT(fsync)(descriptor);
    if (name_of(descriptor) != NULL && result == 0)
        record("sync", name_of(descriptor), 0, 0, NULL);
    return result;
}

int fdatasync(int descriptor)
{
    int result = NEXT(fdatasync)(descriptor);
    if (name_of(descriptor) != NULL && result == 0)
        record("sync", name_of(descriptor), 0, 0, NULL);
    return result;
}

int unlink(const char *path)
{
    const char *name = name_in_directory(path);
    if (name != NULL)
        record("unlink", name, 0, 0, NULL);
    return NEXT(unlink)(path);
}

int rename(const char *path, const char *to)
{
    const char *name = name_in_directory(path), *new_name = name_in_directory(to);
    if (name != NULL && new_name != NULL) {
        pthread_mutex_lock(&lock);
        for (int descriptor = 0; descriptor < FILES_MAX; descriptor++)
            if (strcmp(names[descriptor], name) == 0)
                snprintf(names[descriptor], sizeof names[descriptor], "%s", new_name);
        pthread_mutex_unlock(&lock);
        char both[2 * NAME_MAX + 2];
        snprintf(both, sizeof both, "%s/%s", name, new_name);
        record("rename", both, 0, 0, NULL);
    }
    return NEXT(rename)(path, to);
}
