#include "collector/gather/gather_output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/publish.h"

static bool is_dot(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..");
}

static bool is_table(const char *name)
{
    static const char suffix[] = ".parquet";
    size_t n = strlen(name), m = sizeof suffix - 1;
    return n > m && !strcmp(name + n - m, suffix);
}

/* A parent has Member; rows for the fleet have Metadata. A directory of a profile has Instruction as well. */
static int check_entries(DIR *dir, const char *place, struct kymo_err *err)
{
    bool empty = true, known = false;
    for (const struct dirent *e; (e = readdir(dir));) {
        if (is_dot(e->d_name))
            continue;
        if (!is_table(e->d_name))
            return kymo_err_set(err, -EEXIST, "%s holds %s, which is no table: not replaced", place, e->d_name);
        empty = false;
        known = known || !strcmp(e->d_name, "Member.parquet");
    }
    return empty || known
               ? 0
               : kymo_err_set(err, -EEXIST, "%s holds tables that are not of this program: not replaced", place);
}

static int check_place(const char *place, struct kymo_err *err)
{
    struct stat st;
    if (lstat(place, &st) < 0)
        return errno == ENOENT ? 0 : kymo_err_set(err, -errno, "%s: %s", place, strerror(errno));
    DIR *dir = S_ISDIR(st.st_mode) ? opendir(place) : NULL;
    if (!dir)
        return kymo_err_set(err, -ENOTDIR, "%s: is no directory that can be read", place);
    int r = check_entries(dir, place, err);
    (void)closedir(dir);
    return r;
}

int gather_output_open(struct gather_output *o, const char *place, struct kymo_err *err)
{
    *o = (struct gather_output){.dir = -1, .place = kymo_strdup(place)};
    size_t n = o->place ? strlen(o->place) : 0;
    while (n > 1 && o->place[n - 1] == '/')
        o->place[--n] = '\0';
    o->work = n ? kymo_asprintf("%s.tmp-%ld", o->place, (long)getpid()) : NULL;
    if (!o->work)
        return kymo_err_set(err, n ? -ENOMEM : -EINVAL, "no name for a directory, or no memory");
    int r = check_place(o->place, err);
    if (r == 0)
        r = kymo_file_remove_tree(o->work, err);
    if (r == 0)
        r = kymo_file_mkdirs(o->work, err);
    if (r == 0)
        r = o->dir = kymo_file_open(o->work, O_RDONLY | O_DIRECTORY, 0, err);
    return r < 0 ? r : 0;
}

int gather_output_publish(struct gather_output *o, struct kymo_err *err)
{
    struct publish_counts counts;
    return publish_tables(o->work, o->place, &counts, err);
}

void gather_output_done(struct gather_output *o)
{
    o->dir = kymo_file_close(o->dir);
    /* Nothing can be done about one that stays; its name says what it is. */
    int r = o->work ? kymo_file_remove_tree(o->work, NULL) : 0;
    (void)r;
    kymo_free(o->place);
    kymo_free(o->work);
    *o = (struct gather_output){.dir = -1};
}
