/* A program whose accesses are known: scripts/test-capture.sh captures it. Its loops are assembly, so that no compiler changes the
   counts. The argument's first letter says what it does. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define N 65536L
#define BYTES ((N + 1) * 64)

/* How much more than once the loops run, by the letter: from memory, so that all letters take the same path through main. */
static const volatile long walks[256] = {['w'] = N, ['s'] = N}, vector_walks[256] = {['v'] = N};

/* count times: one store, one load of the same 8 bytes, 64 bytes further each time; 5 instructions, a branch among them. */
static void walk(char *at, long count) {
    __asm__ volatile("1: mov %%rcx, (%0)\n mov (%0), %%rdx\n add $64, %0\n dec %1\n jnz 1b"
                     : "+D"(at), "+c"(count) : : "rdx", "cc", "memory");
}

/* count times: one load of 32 bytes; 4 instructions. */
static void vectors(char *at, long count) {
    __asm__ volatile("1: vmovdqu (%0), %%ymm0\n add $64, %0\n dec %1\n jnz 1b\n vzeroupper"
                     : "+D"(at), "+c"(count) : : "xmm0", "cc", "memory");
}

static void *thread(void *at) {
    walk(at, N);
    return NULL;
}

int main(int argc, char **argv) {
    unsigned char what = argc > 1 ? argv[1][0] : 0;
    char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return 1;
    walk(at, 1 + walks[what]);
    vectors(at, 1 + vector_walks[what]);
    if (what == 't') {
        pthread_t other;
        pthread_create(&other, NULL, thread, at);
        walk(at, N);
        pthread_join(other, NULL);
    }
    if (what == 's') *(volatile char *)8 = 0;
    if (what == 'f' || what == 'a') {
        pid_t child = fork();
        if (child == 0) {
            walk(at, N);
            if (what == 'a') abort();
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    /* As a child, or in this process's own place: the loop once more, under another name. */
    if (what == 'x') {
        pid_t child = fork();
        if (child == 0) {
            execl(argv[0], "again", "w", (char *)NULL);
            _exit(1);
        }
        waitpid(child, NULL, 0);
    }
    if (what == 'p') {
        execl("/nowhere", "nowhere", (char *)NULL);
        execl(argv[0], "again", "w", (char *)NULL);
    }
    while (what == 'k') walk(at, N);
    munmap(at, BYTES);
    return what == 'e' ? 7 : 0;
}
