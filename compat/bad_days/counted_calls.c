/* Ends a server, or fails its calls, at a counted call that changes a file: preloaded into it.

   Counted are calls that create, write, sync, shorten, rename or remove a file whose path has the
   word COUNTED_PART in it, once the file COUNTED_BEGIN is there. At number COUNTED_AT the process
   is killed: COUNTED_HOW is `before`, `after`, or `half`, which writes half of the bytes first; or
   that call and all after it fail: `full` (no room) or `broken` (an error of the disk). */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

enum outcome { PASSES, ENDS_AFTER, ENDS_HALFWAY, HAS_NO_ROOM, IS_BROKEN };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int count;

static void end(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static enum outcome outcome_of(int number)
{
    const char *how = getenv("COUNTED_HOW");
    int at = atoi(getenv("COUNTED_AT"));
    if (number >= at && !strcmp(how, "full"))
        return HAS_NO_ROOM;
    if (number >= at && !strcmp(how, "broken"))
        return IS_BROKEN;
    if (number != at)
        return PASSES;
    if (!strcmp(how, "before"))
        end();
    return !strcmp(how, "half") ? ENDS_HALFWAY : !strcmp(how, "after") ? ENDS_AFTER : PASSES;
}

static enum outcome meet(const char *path)
{
    const char *part = getenv("COUNTED_PART"), *begin = getenv("COUNTED_BEGIN");
    if (!part || !strstr(path, part) || access(begin, F_OK) != 0)
        return PASSES;
    pthread_mutex_lock(&lock);
    enum outcome outcome = outcome_of(++count);
    pthread_mutex_unlock(&lock);
    return outcome;
}

static enum outcome meet_file(int file)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return meet(path);
}

/* Whether the call fails, with its error. */
static int fails(enum outcome outcome)
{
    if (outcome == HAS_NO_ROOM)
        errno = ENOSPC;
    if (outcome == IS_BROKEN)
        errno = EIO;
    return outcome == HAS_NO_ROOM || outcome == IS_BROKEN;
}

static int finish(enum outcome outcome, int result)
{
    if (outcome != PASSES)
        end();
    return result;
}

#define COUNTED(name, parameters, met, arguments)                                                  \
    int name parameters                                                                            \
    {                                                                                              \
        enum outcome outcome = met;                                                                \
        return fails(outcome) ? -1 : finish(outcome, REAL(name) arguments);                        \
    }

COUNTED(fsync, (int file), meet_file(file), (file))
COUNTED(fdatasync, (int file), meet_file(file), (file))
COUNTED(ftruncate64, (int file, off64_t length), meet_file(file), (file, length))
COUNTED(fallocate64, (int file, int mode, off64_t from, off64_t length), meet_file(file),
        (file, mode, from, length))
COUNTED(rename, (const char *from, const char *to), meet(to), (from, to))
COUNTED(unlink, (const char *path), meet(path), (path))
COUNTED(mkdir, (const char *path, mode_t mode), meet(path), (path, mode))

ssize_t write(int file, const void *bytes, size_t length)
{
    enum outcome outcome = meet_file(file);
    if (fails(outcome))
        return -1;
    if (outcome == ENDS_HALFWAY)
        length = (length + 1) / 2;
    ssize_t written = REAL(write)(file, bytes, length);
    if (outcome != PASSES)
        end();
    return written;
}

int open64(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    enum outcome outcome = flags & (O_CREAT | O_TRUNC) ? meet(path) : PASSES;
    return fails(outcome) ? -1 : finish(outcome, REAL(open64)(path, flags, mode));
}
