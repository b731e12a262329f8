/* A disk whose syncs wait, or fail, when a file says so: preloaded into a server.

   HELD_DISK names a directory. While `hold` is in it every sync waits, and says so by making
   `waits`; while `fail` is in it every sync fails. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int is_there(const char *name)
{
    char path[4096];
    const char *directory = getenv("HELD_DISK");
    if (!directory)
        return 0;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

static void say_that_it_waits(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/waits", getenv("HELD_DISK"));
    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0)
        close(file);
}

static int wait_and_sync(int file, const char *name)
{
    while (is_there("hold")) {
        say_that_it_waits();
        usleep(2000);
    }
    if (is_there("fail")) {
        errno = EIO;
        return -1;
    }
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return sync(file);
}

int fsync(int file)
{
    return wait_and_sync(file, "fsync");
}

int fdatasync(int file)
{
    return wait_and_sync(file, "fdatasync");
}
