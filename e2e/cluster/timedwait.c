/* Loaded before libfaketime: hands condition variables straight to the C library.
 *
 * Debian's libfaketime (0.9.10) guards its list of monotonic condition variables by a lock that it only tries; a thread that does not get it
 * returns from its wait at once. In a JVM, some hundred threads wait so, and end up doing nothing else: a broker took both cores of the machine.
 * What they wait by is the monotonic clock, which is not shifted anyway.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static void *real(const char *name) {
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *found = libc ? dlvsym(libc, name, "GLIBC_2.3.2") : NULL;
    if (!found) abort();
    return found;
}

static int (*wait_until)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*init)(pthread_cond_t *, const pthread_condattr_t *);
static int (*destroy)(pthread_cond_t *);

__attribute__((constructor)) static void find(void) {
    wait_until = real("pthread_cond_timedwait");
    init = real("pthread_cond_init");
    destroy = real("pthread_cond_destroy");
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *end) {
    if (!wait_until) find();
    return wait_until(condition, mutex, end);
}

int pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes) {
    if (!init) find();
    return init(condition, attributes);
}

int pthread_cond_destroy(pthread_cond_t *condition) {
    if (!destroy) find();
    return destroy(condition);
}
