/* A preloaded library that stands between a process and its file-system calls.
 *
 * Every libc call on a path below a prefix, or on a descriptor that was opened there, gets a
 * number from one counter. `shim_arm` says which number fails and how; without it everything
 * passes. One line for each fault that lands, "<number> <call> <path>", goes to a descriptor.
 *
 * Calls that do not fail are not counted: lseek, munmap, dup, letting go of a lock.
 * What a library does by a raw system call is not seen, except openat2, which has no wrapper.
 * SQLite sleeps for ten seconds in all before it gives up on a lock that keeps failing. So once a
 * fault has landed its sleeps are a hundredth as long; Python's own go by another call.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* What happens at the chosen call. Python has the same list (shim/preload.py). */
enum kind { NONE, KILL_BEFORE, KILL_AFTER, TORN_KILL, SHORT, HALF_FAIL, FAIL, DONE_FAIL };

/* What a call does, so that a full disk refuses writes and goes on to read. */
enum { READS = 1, CHANGES = 2, OPENS = 4, SYNCS = 8 };

#define DESCRIPTORS 65536
#define CALLS 16384
#define EXPORT __attribute__((visibility("default")))

static struct {
    long at;
    int kind;
    int error;
    int persists; /* mask of what also fails from then on; 0: nothing */
    int report;
    int recording;
    size_t prefix_length;
    char prefix[4096];
} plan;

static long counter;
static long landed;
static unsigned char below[DESCRIPTORS];
static char *recorded[CALLS];

/* -- control ---------------------------------------------------------------------------------- */

EXPORT void shim_arm(const char *prefix, long at, int kind, int error, int persists, int report,
                     int recording) {
    memset(below, 0, sizeof below);
    counter = landed = 0;
    plan.at = at;
    plan.kind = kind;
    plan.error = error;
    plan.persists = persists;
    plan.report = report;
    plan.recording = recording;
    plan.prefix_length = strlen(prefix);
    memcpy(plan.prefix, prefix, plan.prefix_length + 1);
}

EXPORT void shim_disarm(void) { plan.prefix_length = 0; }
EXPORT long shim_count(void) { return counter; }
EXPORT long shim_landed(void) { return landed; }
EXPORT const char *shim_call(long number) { return number <= CALLS ? recorded[number - 1] : NULL; }

/* -- which calls are ours --------------------------------------------------------------------- */

static int is_below(const char *path) {
    size_t length = plan.prefix_length;
    return length && path && strncmp(path, plan.prefix, length) == 0 &&
           (path[length] == '/' || path[length] == 0);
}

static int is_ours(int descriptor) {
    return plan.prefix_length && descriptor >= 0 && descriptor < DESCRIPTORS && below[descriptor];
}

static int is_below_at(int directory, const char *path) {
    if (!path) return 0;
    if (path[0] == '/') return is_below(path);
    return directory != AT_FDCWD && is_ours(directory);
}

static int keep(int descriptor, int ours) {
    if (descriptor >= 0 && descriptor < DESCRIPTORS) below[descriptor] = ours;
    return descriptor;
}

/* -- the one place where faults happen -------------------------------------------------------- */

static void describe(char *text, size_t size, const char *call, int directory, const char *path) {
    char base[4096] = "";
    if (directory >= 0 && (!path || path[0] != '/')) {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
        ssize_t got = syscall(SYS_readlink, link, base, sizeof base - 1);
        base[got > 0 ? got : 0] = 0;
    }
    snprintf(text, size, "%s %s%s%s", call, base, path && *base ? "/" : "", path ? path : "");
}

/* Whether the call that is about to be made is to fail; `what` it does decides in a persisting
 * failure. A call that is due is reported here, since its process may not live to tell. */
static int due(const char *call, int what, int directory, const char *path) {
    long number = __atomic_add_fetch(&counter, 1, __ATOMIC_SEQ_CST);
    int saved = errno;
    char text[8300];
    if (plan.recording && number <= CALLS) {
        describe(text, sizeof text, call, directory, path);
        recorded[number - 1] = strdup(text);
    }
    int hit = plan.kind && number == plan.at;
    int again = plan.persists && plan.at && number > plan.at && (what & plan.persists);
    if (hit) {
        landed++;
        describe(text, sizeof text, call, directory, path);
        dprintf(plan.report, "%ld %s\n", number, text);
    } else if (again) {
        landed++;
    }
    errno = saved;
    return hit ? plan.kind : again ? FAIL : NONE;
}

static _Noreturn void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

static long failed(void) {
    errno = plan.error;
    return -1;
}

#define REAL(name)                                  \
    static __typeof__(&name) real;                  \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)

/* A call that has no half: it is made or it is not. */
#define WHOLE(ours, call, what, directory, path, result, made)   \
    do {                                                         \
        if (!(ours)) return made;                                \
        switch (due(call, what, directory, path)) {              \
        case KILL_BEFORE: case TORN_KILL: die();                 \
        case KILL_AFTER: (void)!(made); die();                   \
        case FAIL: case HALF_FAIL: return (result)failed();      \
        case DONE_FAIL: (void)!(made); return (result)failed();  \
        default: return made;                                    \
        }                                                        \
    } while (0)

/* A call that moves bytes; `half` moves some of them. */
#define BYTES(descriptor, call, what, made, half)                \
    do {                                                         \
        if (!is_ours(descriptor)) return made;                   \
        switch (due(call, what, descriptor, NULL)) {             \
        case KILL_BEFORE: die();                                 \
        case KILL_AFTER: (void)!(made); die();                   \
        case TORN_KILL: (void)!(half); die();                    \
        case SHORT: return half;                                 \
        case HALF_FAIL: (void)!(half); return failed();          \
        case FAIL: return failed();                              \
        case DONE_FAIL: (void)!(made); return failed();          \
        default: return made;                                    \
        }                                                        \
    } while (0)

static size_t half_of(size_t size) { return size > 1 ? size / 2 : size; }

/* A read is cut after it was made: how much there is to read is only known then. */
static ssize_t cut(ssize_t got) { return got > 1 ? got / 2 : got; }

static ssize_t cut_at(int descriptor, ssize_t got) {
    if (got > 1) lseek(descriptor, -(off_t)(got - got / 2), SEEK_CUR);
    return cut(got);
}

/* -- opening and closing ---------------------------------------------------------------------- */

static int opened(int descriptor, int undo) {
    if (undo && descriptor >= 0) syscall(SYS_close, descriptor);
    return keep(descriptor, !undo);
}

#define OPEN(directory, path, flags, made)                                          \
    do {                                                                            \
        if (!is_below_at(directory, path)) return keep(made, 0);                    \
        int what = OPENS | ((flags) & (O_CREAT | __O_TMPFILE) ? CHANGES : READS);   \
        switch (due("open", what, directory, path)) {                               \
        case KILL_BEFORE: case TORN_KILL: die();                                    \
        case KILL_AFTER: (void)!(made); die();                                      \
        case FAIL: case HALF_FAIL: return failed();                                 \
        case DONE_FAIL: opened(made, 1); return failed();                           \
        default: return opened(made, 0);                                            \
        }                                                                           \
    } while (0)

static mode_t mode_of(int flags, va_list arguments) {
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

#define OPEN_CALL(name)                                   \
    EXPORT int name(const char *path, int flags, ...) {   \
        va_list list;                                     \
        va_start(list, flags);                            \
        mode_t mode = mode_of(flags, list);               \
        va_end(list);                                     \
        REAL(name);                                       \
        OPEN(AT_FDCWD, path, flags, real(path, flags, mode)); \
    }
OPEN_CALL(open)
OPEN_CALL(open64)

#define OPENAT_CALL(name)                                                \
    EXPORT int name(int directory, const char *path, int flags, ...) {   \
        va_list list;                                                    \
        va_start(list, flags);                                           \
        mode_t mode = mode_of(flags, list);                              \
        va_end(list);                                                    \
        REAL(name);                                                      \
        OPEN(directory, path, flags, real(directory, path, flags, mode)); \
    }
OPENAT_CALL(openat)
OPENAT_CALL(openat64)

static int do_openat2(int directory, const char *path, struct open_how *how, size_t size) {
    OPEN(directory, path, (int)how->flags,
         (int)syscall(SYS_openat2, directory, path, how, size));
}

typedef long (*raw_call)(long, ...);

EXPORT long syscall(long number, ...) {
    static raw_call real;
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    va_list list;
    va_start(list, number);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
    long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
    va_end(list);
    static __thread int inside;
    if (number != SYS_openat2 || inside || !plan.prefix_length) return real(number, a, b, c, d, e, f);
    inside = 1;
    int descriptor = do_openat2((int)a, (const char *)b, (struct open_how *)c, (size_t)d);
    inside = 0;
    return descriptor;
}

EXPORT int close(int descriptor) {
    REAL(close);
    int ours = is_ours(descriptor);
    if (!ours) return real(descriptor);
    int kind = due("close", READS, descriptor, NULL);
    below[descriptor] = 0;
    if (kind == KILL_BEFORE || kind == TORN_KILL) die();
    int result = real(descriptor); /* Linux closes, whatever it says */
    if (kind == KILL_AFTER) die();
    return kind == NONE || kind == SHORT ? result : (int)failed();
}

EXPORT DIR *opendir(const char *path) {
    REAL(opendir);
    if (!is_below(path)) return real(path);
    int kind = due("opendir", OPENS | READS, AT_FDCWD, path);
    if (kind == KILL_BEFORE || kind == TORN_KILL) die();
    DIR *directory = kind == FAIL || kind == HALF_FAIL ? NULL : real(path);
    if (kind == KILL_AFTER) die();
    if (kind == DONE_FAIL && directory) closedir(directory);
    if (kind != NONE && kind != SHORT) return failed(), NULL;
    if (directory) keep(dirfd(directory), 1);
    return directory;
}

EXPORT int closedir(DIR *directory) {
    REAL(closedir);
    int descriptor = dirfd(directory);
    if (!is_ours(descriptor)) return real(directory);
    below[descriptor] = 0;
    return real(directory);
}

EXPORT struct dirent64 *readdir64(DIR *directory) {
    REAL(readdir64);
    int descriptor = dirfd(directory);
    if (!is_ours(descriptor)) return real(directory);
    int kind = due("readdir", READS, descriptor, NULL);
    if (kind == KILL_BEFORE || kind == TORN_KILL) die();
    if (kind == NONE || kind == SHORT) return real(directory);
    if (kind == KILL_AFTER) (void)!real(directory), die();
    return failed(), NULL;
}

EXPORT int dup(int descriptor) {
    REAL(dup);
    return keep(real(descriptor), is_ours(descriptor));
}

EXPORT int dup2(int descriptor, int other) {
    REAL(dup2);
    return keep(real(descriptor, other), is_ours(descriptor));
}

EXPORT int dup3(int descriptor, int other, int flags) {
    REAL(dup3);
    return keep(real(descriptor, other, flags), is_ours(descriptor));
}

/* -- bytes ------------------------------------------------------------------------------------ */

EXPORT ssize_t read(int fd, void *to, size_t size) {
    REAL(read);
    BYTES(fd, "read", READS, real(fd, to, size), cut_at(fd, real(fd, to, size)));
}

EXPORT ssize_t readv(int fd, const struct iovec *to, int many) {
    REAL(readv);
    BYTES(fd, "read", READS, real(fd, to, many), cut_at(fd, real(fd, to, many)));
}

EXPORT ssize_t pread64(int fd, void *to, size_t size, off64_t offset) {
    REAL(pread64);
    BYTES(fd, "read", READS, real(fd, to, size, offset), cut(real(fd, to, size, offset)));
}

EXPORT ssize_t preadv64v2(int fd, const struct iovec *to, int many, off64_t offset, int flags) {
    REAL(preadv64v2);
    BYTES(fd, "read", READS, real(fd, to, many, offset, flags),
          cut(real(fd, to, many, offset, flags)));
}

EXPORT ssize_t write(int fd, const void *from, size_t size) {
    REAL(write);
    BYTES(fd, "write", CHANGES, real(fd, from, size), real(fd, from, half_of(size)));
}

EXPORT ssize_t pwrite64(int fd, const void *from, size_t size, off64_t offset) {
    REAL(pwrite64);
    BYTES(fd, "write", CHANGES, real(fd, from, size, offset),
          real(fd, from, half_of(size), offset));
}

static ssize_t write_some(int fd, const struct iovec *from, off64_t offset) {
    size_t half = half_of(from[0].iov_len);
    return syscall(SYS_pwrite64, fd, from[0].iov_base, half, offset);
}

EXPORT ssize_t writev(int fd, const struct iovec *from, int many) {
    REAL(writev);
    struct iovec half = {from[0].iov_base, half_of(from[0].iov_len)};
    BYTES(fd, "write", CHANGES, real(fd, from, many), real(fd, &half, 1));
}

EXPORT ssize_t pwritev64v2(int fd, const struct iovec *from, int many, off64_t offset, int flags) {
    REAL(pwritev64v2);
    BYTES(fd, "write", CHANGES, real(fd, from, many, offset, flags), write_some(fd, from, offset));
}

EXPORT ssize_t copy_file_range(int fd, off64_t *in, int to, off64_t *out, size_t size,
                               unsigned flags) {
    REAL(copy_file_range);
    BYTES(to, "copy_file_range", CHANGES, real(fd, in, to, out, size, flags),
          real(fd, in, to, out, half_of(size), flags));
}

EXPORT ssize_t sendfile64(int to, int fd, off64_t *offset, size_t size) {
    REAL(sendfile64);
    BYTES(to, "sendfile", CHANGES, real(to, fd, offset, size), real(to, fd, offset, half_of(size)));
}

/* -- calls on a descriptor -------------------------------------------------------------------- */

#define ON_DESCRIPTOR(name, shown, what, parameters, arguments)              \
    EXPORT int name parameters {                                             \
        REAL(name);                                                          \
        WHOLE(is_ours(fd), shown, what, fd, NULL, int, real arguments);      \
    }
ON_DESCRIPTOR(fsync, "fsync", SYNCS | CHANGES, (int fd), (fd))
ON_DESCRIPTOR(fdatasync, "fdatasync", SYNCS | CHANGES, (int fd), (fd))
ON_DESCRIPTOR(syncfs, "syncfs", SYNCS | CHANGES, (int fd), (fd))
ON_DESCRIPTOR(sync_file_range, "sync_file_range", SYNCS,
              (int fd, off64_t offset, off64_t size, unsigned flags), (fd, offset, size, flags))
ON_DESCRIPTOR(ftruncate64, "ftruncate", CHANGES, (int fd, off64_t size), (fd, size))
ON_DESCRIPTOR(fallocate64, "fallocate", CHANGES, (int fd, int mode, off64_t offset, off64_t size),
              (fd, mode, offset, size))
ON_DESCRIPTOR(fchmod, "fchmod", CHANGES, (int fd, mode_t mode), (fd, mode))
ON_DESCRIPTOR(fchown, "fchown", CHANGES, (int fd, uid_t user, gid_t group), (fd, user, group))
ON_DESCRIPTOR(futimens, "futimens", CHANGES, (int fd, const struct timespec times[2]), (fd, times))
ON_DESCRIPTOR(flock, "flock", READS, (int fd, int operation), (fd, operation))
ON_DESCRIPTOR(lockf64, "lockf", READS, (int fd, int command, off64_t size), (fd, command, size))
ON_DESCRIPTOR(fstat64, "stat", READS, (int fd, struct stat64 *into), (fd, into))
ON_DESCRIPTOR(fstatvfs64, "statvfs", READS, (int fd, struct statvfs64 *into), (fd, into))

/* These return the error instead of setting errno; they are advice, so they only fail. */
#define ADVICE(name, parameters, arguments)                                       \
    EXPORT int name parameters {                                                  \
        REAL(name);                                                               \
        if (!is_ours(fd)) return real arguments;                                  \
        switch (due(#name, READS, fd, NULL)) {                                    \
        case KILL_BEFORE: case TORN_KILL: die();                                  \
        case KILL_AFTER: (void)!(real arguments); die();                          \
        case NONE: case SHORT: return real arguments;                             \
        default: return plan.error;                                               \
        }                                                                         \
    }
ADVICE(posix_fadvise64, (int fd, off64_t offset, off64_t size, int advice), (fd, offset, size, advice))
ADVICE(posix_fallocate64, (int fd, off64_t offset, off64_t size), (fd, offset, size))

EXPORT int fcntl64(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    REAL(fcntl64);
    int locks = (command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK ||
                 command == F_OFD_SETLKW) &&
                ((struct flock *)argument)->l_type != F_UNLCK;
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        return keep(real(fd, command, argument), is_ours(fd));
    WHOLE(is_ours(fd) && locks, "fcntl", READS, fd, NULL, int, real(fd, command, argument));
}

EXPORT void *mmap64(void *at, size_t size, int access, int flags, int fd, off64_t offset) {
    REAL(mmap64);
    if (!is_ours(fd)) return real(at, size, access, flags, fd, offset);
    int kind = due("mmap", READS, fd, NULL);
    if (kind == KILL_BEFORE || kind == TORN_KILL) die();
    if (kind == KILL_AFTER) (void)real(at, size, access, flags, fd, offset), die();
    if (kind != NONE && kind != SHORT) return failed(), MAP_FAILED;
    return real(at, size, access, flags, fd, offset);
}

/* -- calls on names --------------------------------------------------------------------------- */

#define ON_NAME(type, name, shown, what, at, path, parameters, arguments)                    \
    EXPORT type name parameters {                                                            \
        REAL(name);                                                                          \
        WHOLE(is_below_at(at, path), shown, what, at, path, type, real arguments);           \
    }
ON_NAME(int, mkdir, "mkdir", CHANGES, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
ON_NAME(int, mkdirat, "mkdir", CHANGES, at, path, (int at, const char *path, mode_t mode),
        (at, path, mode))
ON_NAME(int, rmdir, "rmdir", CHANGES, AT_FDCWD, path, (const char *path), (path))
ON_NAME(int, unlink, "unlink", CHANGES, AT_FDCWD, path, (const char *path), (path))
ON_NAME(int, unlinkat, "unlink", CHANGES, at, path, (int at, const char *path, int flags),
        (at, path, flags))
ON_NAME(int, rename, "rename", CHANGES, AT_FDCWD, path, (const char *old, const char *path),
        (old, path))
ON_NAME(int, renameat, "rename", CHANGES, at, path,
        (int from, const char *old, int at, const char *path), (from, old, at, path))
ON_NAME(int, renameat2, "rename", CHANGES, at, path,
        (int from, const char *old, int at, const char *path, unsigned flags),
        (from, old, at, path, flags))
ON_NAME(int, link, "link", CHANGES, AT_FDCWD, path, (const char *old, const char *path),
        (old, path))
ON_NAME(int, linkat, "link", CHANGES, at, path,
        (int from, const char *old, int at, const char *path, int flags),
        (from, old, at, path, flags))
ON_NAME(int, symlink, "symlink", CHANGES, AT_FDCWD, path, (const char *old, const char *path),
        (old, path))
ON_NAME(int, symlinkat, "symlink", CHANGES, at, path,
        (const char *old, int at, const char *path), (old, at, path))
ON_NAME(int, truncate64, "truncate", CHANGES, AT_FDCWD, path, (const char *path, off64_t size),
        (path, size))
ON_NAME(int, chmod, "chmod", CHANGES, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
ON_NAME(int, fchmodat, "chmod", CHANGES, at, path,
        (int at, const char *path, mode_t mode, int flags), (at, path, mode, flags))
ON_NAME(int, utimensat, "utime", CHANGES, at, path,
        (int at, const char *path, const struct timespec times[2], int flags),
        (at, path, times, flags))
ON_NAME(int, stat64, "stat", READS, AT_FDCWD, path, (const char *path, struct stat64 *into),
        (path, into))
ON_NAME(int, lstat64, "stat", READS, AT_FDCWD, path, (const char *path, struct stat64 *into),
        (path, into))
ON_NAME(int, fstatat64, "stat", READS, at, path,
        (int at, const char *path, struct stat64 *into, int flags), (at, path, into, flags))
ON_NAME(int, statx, "stat", READS, at, path,
        (int at, const char *path, int flags, unsigned mask, struct statx *into),
        (at, path, flags, mask, into))
ON_NAME(int, access, "access", READS, AT_FDCWD, path, (const char *path, int mode), (path, mode))
ON_NAME(int, faccessat, "access", READS, at, path, (int at, const char *path, int mode, int flags),
        (at, path, mode, flags))
ON_NAME(ssize_t, readlink, "readlink", READS, AT_FDCWD, path,
        (const char *path, char *into, size_t size), (path, into, size))
ON_NAME(ssize_t, readlinkat, "readlink", READS, at, path,
        (int at, const char *path, char *into, size_t size), (at, path, into, size))
ON_NAME(int, statvfs64, "statvfs", READS, AT_FDCWD, path,
        (const char *path, struct statvfs64 *into), (path, into))

/* -- sleeping --------------------------------------------------------------------------------- */

enum { SHORTER = 100 };

EXPORT int usleep(useconds_t microseconds) {
    REAL(usleep);
    return real(landed ? microseconds / SHORTER : microseconds);
}

EXPORT int nanosleep(const struct timespec *time, struct timespec *left) {
    REAL(nanosleep);
    struct timespec less = {time->tv_sec / SHORTER, time->tv_nsec / SHORTER};
    return real(landed ? &less : time, left);
}
