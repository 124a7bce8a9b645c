#include "tests/unit/killing_vfs.h"

#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

static sqlite3_vfs vfs, *base;
static long calls, at = -1;
static bool disk_full;

/* The system's VFS has a table per locking method; each gets a copy of ours. */
#define TABLES 4
static const sqlite3_io_methods *originals[TABLES];
static sqlite3_io_methods copies[TABLES];

static const sqlite3_io_methods *original(sqlite3_file *f)
{
    for (unsigned i = 0; i < TABLES; i++)
        if (f->pMethods == &copies[i])
            return originals[i];
    return f->pMethods;
}

static int due(void)
{
    long now = calls++;
    if (at < 0 || now < at)
        return 0;
    if (!disk_full)
        _exit(KILLING_VFS_CODE);
    return SQLITE_FULL;
}

static int write_or_die(sqlite3_file *f, const void *data, int n, sqlite3_int64 off)
{
    /* Half of what the process was about to write is there. */
    if (at >= 0 && calls >= at && n > 1)
        (void)original(f)->xWrite(f, data, n / 2, off);
    int code = due();
    return code ? code : original(f)->xWrite(f, data, n, off);
}

static int truncate_or_die(sqlite3_file *f, sqlite3_int64 size)
{
    int code = due();
    return code ? code : original(f)->xTruncate(f, size);
}

static int no_sync(sqlite3_file *f, int flags)
{
    (void)f;
    (void)flags;
    return SQLITE_OK;
}

static int open_file(sqlite3_vfs *v, sqlite3_filename name, sqlite3_file *f, int flags, int *out)
{
    (void)v;
    int code = base->xOpen(base, name, f, flags, out);
    if (code != SQLITE_OK || !f->pMethods)
        return code;
    unsigned i = 0;
    while (i < TABLES && originals[i] && originals[i] != f->pMethods)
        i++;
    if (i == TABLES)
        return SQLITE_ERROR;
    if (!originals[i]) {
        originals[i] = f->pMethods;
        copies[i] = *f->pMethods;
        copies[i].xWrite = write_or_die;
        copies[i].xTruncate = truncate_or_die;
        copies[i].xSync = no_sync;
    }
    f->pMethods = &copies[i];
    return SQLITE_OK;
}

void killing_vfs_install(void)
{
    base = sqlite3_vfs_find(NULL);
    vfs = *base;
    vfs.zName = "killing";
    vfs.xOpen = open_file;
    (void)sqlite3_vfs_register(&vfs, 1);
}

void killing_vfs_arm(long nth, bool full)
{
    calls = 0;
    at = nth;
    disk_full = full;
}

long killing_vfs_calls(void)
{
    return calls;
}
