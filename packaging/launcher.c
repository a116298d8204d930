/* The one file `dist/fibatchd`: it carries the program's folder, unpacks it once, and becomes the program in it.
 *
 * It execs, so the server is the very process that the service manager or a shell started: signals, LISTEN_PID,
 * NOTIFY_SOCKET, WATCHDOG_PID and MAINPID hold for it, and there is no parent whose death could orphan it. The folder is
 * named for its content and kept, so only the first start pays for unpacking, and no two versions meet in one folder.
 *
 * A shared lock on the folder goes with the process through exec. Whoever unpacks another version removes the folders that
 * nobody holds: older versions, and what was left half done. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

#define PROGRAM "fibatchd"
#define BLOCK 512 /* of a tar archive, POSIX.1-1988 ustar */

/* payload_begin to payload_end: the folder as a gzipped ustar archive. NAME says which content that is. */
__asm__(".section .rodata\n.global payload_begin, payload_end\npayload_begin: .incbin \"" PAYLOAD "\"\npayload_end: .byte 0\n"
        ".previous\n");
extern const unsigned char payload_begin[], payload_end[];

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, target[100], magic[8], user[32],
        group[32], major[8], minor[8], prefix[155], rest[12];
};

static char refusals[4096]; /* why each place was refused, told when none is left */

/* Note why a place cannot be used; return -1 for the caller to return. */
static int refuse(const char *place, const char *why) {
    size_t used = strlen(refusals);
    snprintf(refusals + used, sizeof refusals - used, "  %s: %s\n", place, why);
    return -1;
}

/* Return a path, to be kept until exec or exit. */
static char *path_of(const char *format, ...) {
    char *path;
    va_list parts;
    va_start(parts, format);
    if (vasprintf(&path, format, parts) < 0)
        abort();
    va_end(parts);
    return path;
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *walk) {
    (void)found, (void)kind, (void)walk;
    return remove(path);
}

static void remove_tree(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

/* Fill a buffer from the payload. Return 0, or -1 at its end. */
static int take(z_stream *in, void *buffer, size_t size) {
    in->next_out = buffer;
    in->avail_out = size;
    while (in->avail_out > 0)
        if (inflate(in, Z_NO_FLUSH) != Z_OK && in->avail_out > 0)
            return -1;
    return 0;
}

/* Read on to the payload's end, where zlib compares its checksum. Return 0, or -1 where it is another. */
static int finish(z_stream *in) {
    unsigned char rest[BLOCK];
    int status;
    do {
        in->next_out = rest;
        in->avail_out = sizeof rest;
        status = inflate(in, Z_NO_FLUSH);
    } while (status == Z_OK);
    return status == Z_STREAM_END ? 0 : -1;
}

static int write_file(z_stream *in, const char *path, mode_t mode, size_t size) {
    static char buffer[256 * BLOCK];
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file < 0)
        return -1;
    while (size > 0) {
        size_t part = size < sizeof buffer ? size : sizeof buffer;
        size_t padded = (part + BLOCK - 1) / BLOCK * BLOCK; /* the archive's last block of a file is filled up */
        errno = EIO;
        if (take(in, buffer, padded) < 0 || write(file, buffer, part) != (ssize_t)part)
            return close(file), -1;
        size -= part;
    }
    return close(file);
}

/* Write the archive's members into a folder. Return 0, or -1 with errno. */
static int unpack_into(const char *folder) {
    z_stream in = {.next_in = (unsigned char *)payload_begin, .avail_in = payload_end - payload_begin};
    struct header member;
    int failed = inflateInit2(&in, 16 + MAX_WBITS) != Z_OK; /* 16: gzip's framing */
    while (!failed) {
        errno = EIO; /* where no call says more, the payload is damaged */
        if ((failed = take(&in, &member, sizeof member)) || !member.name[0])
            break;
        char *path = path_of("%s/%.155s%s%.100s", folder, member.prefix, member.prefix[0] ? "/" : "", member.name);
        mode_t mode = strtoul(member.mode, NULL, 8);
        if (member.type == '5')
            failed = mkdir(path, mode);
        else if (member.type == '2')
            failed = symlink(path_of("%.100s", member.target), path);
        else
            failed = write_file(&in, path, mode, strtoul(member.size, NULL, 8));
        free(path);
    }
    failed = failed || finish(&in);
    inflateEnd(&in);
    return failed ? -1 : 0;
}

/* Open a folder and hold it against removal for as long as this process lives. Return its descriptor or -1. */
static int hold(const char *folder) {
    int held = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW); /* not CLOEXEC: the lock is to outlive exec */
    if (held >= 0 && flock(held, LOCK_SH) < 0)
        return close(held), -1;
    return held;
}

/* Whether a name can be that of a folder made here: fibatchd-VERSION-DIGEST, or that and six characters behind a dot, while
 * it was unpacked. Folders of the user's own may begin alike. */
static int is_ours(const char *name) {
    size_t length = strlen(name), digest = 16;
    if (length > 7 && name[length - 7] == '.')
        length -= 7;
    return strncmp(name, PROGRAM "-", sizeof PROGRAM) == 0 && length > sizeof PROGRAM + digest &&
           name[length - digest - 1] == '-' && strspn(name + length - digest, "0123456789abcdef") >= digest;
}

/* Remove what lies in a place and is held by nobody. */
static void sweep(const char *place) {
    DIR *all = opendir(place);
    for (struct dirent *entry; all && (entry = readdir(all));) {
        if (!is_ours(entry->d_name))
            continue;
        char *folder = path_of("%s/%s", place, entry->d_name);
        int other = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (other >= 0 && flock(other, LOCK_EX | LOCK_NB) == 0)
            remove_tree(folder);
        if (other >= 0)
            close(other);
        free(folder);
    }
    if (all)
        closedir(all);
}

/* Unpack under a name of our own, then rename: a folder is there whole or not at all, after a power cut too. */
static int unpack(const char *place, const char *folder) {
    /* Not named for the process: containers that share the place may all be process 1. */
    char *fresh = mkdtemp(path_of("%s.XXXXXX", folder));
    if (!fresh)
        return refuse(place, strerror(errno));
    int held = hold(fresh);
    if (held < 0 || unpack_into(fresh) < 0 || syncfs(held) < 0 || rename(fresh, folder) < 0) {
        int error = errno;
        remove_tree(fresh);
        if (held >= 0)
            close(held);
        /* Else another process was first, and what it made serves; or swept ours before we held it. */
        if (error != EEXIST && error != ENOTEMPTY && error != ENOENT)
            return refuse(folder, strerror(error));
    }
    sweep(place);
    return 0;
}

/* Become the program in a folder of this place, unpacked first where it is not there. Return only on failure. */
static int run_from(const char *place, char **argv) {
    char *folder = path_of("%s/%s", place, NAME), *program = path_of("%s/%s", folder, PROGRAM);
    for (int attempt = 0; attempt < 3; attempt++) { /* between a look and the lock, another version may have swept */
        int held = hold(folder);
        if (held >= 0 && access(program, F_OK) == 0) {
            execv(program, argv);
            close(held);
            return refuse(program, strerror(errno));
        }
        if (held >= 0)
            close(held);
        if (unpack(place, folder) < 0)
            return -1;
    }
    return refuse(folder, "was removed again and again");
}

/* Use a place if it is this user's alone: programs are run from it, and old ones removed. `flags` are open's: O_NOFOLLOW for
 * a place where others could have put a link, and turn it around after this look. */
static int try_place(const char *place, int flags, char **argv) {
    struct stat found;
    struct statvfs mounted;
    if (mkdir(place, 0700) < 0 && errno != EEXIST)
        return refuse(place, strerror(errno));
    int folder = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    if (folder < 0 || fstat(folder, &found) < 0 || fstatvfs(folder, &mounted) < 0)
        return refuse(place, strerror(errno));
    close(folder);
    if (found.st_uid != geteuid() || found.st_mode & (S_IWGRP | S_IWOTH))
        return refuse(place, "belongs to somebody else, or others may write to it");
    if (mounted.f_flag & ST_NOEXEC)
        return refuse(place, "is mounted noexec");
    return run_from(place, argv);
}

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && value[0] == '/' ? value : NULL;
}

int main(int argc, char **argv) {
    const char *given;
    (void)argc;
    if ((given = variable("CACHE_DIRECTORY"))) /* systemd's CacheDirectory= */
        try_place(path_of("%.*s", (int)strcspn(given, ":"), given), 0, argv);
    if ((given = variable("XDG_CACHE_HOME")))
        try_place(path_of("%s/" PROGRAM, given), 0, argv);
    if ((given = variable("HOME"))) {
        mkdir(path_of("%s/.cache", given), 0700);
        try_place(path_of("%s/.cache/" PROGRAM, given), 0, argv);
    }
    given = variable("TMPDIR");
    try_place(path_of("%s/" PROGRAM "-%u", given ? given : "/tmp", (unsigned)geteuid()), O_NOFOLLOW, argv);
    fprintf(stderr, PROGRAM ": found no place to unpack itself; set CACHE_DIRECTORY to a folder of yours\n%s", refusals);
    return 1;
}
