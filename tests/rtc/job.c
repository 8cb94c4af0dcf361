/* SPDX-License-Identifier: MIT */
/* Compiles programs as a job does, and prints what the run-time compiler returns. Usage:
 *
 *   job [--library PATH [--deepbind]] [--name NAME] [--header NAME=TEXT] [--expression E]
 *       [--missing E] [--option O]... [--processes N] [--forks N] [--hold] SOURCE...
 *
 * With --missing, it asks for the lowered name of E before it prints that of --expression.
 *
 * Without --library, it calls the library that it is linked with. The source text has "\n" for a
 * new line. With --processes, N children compile at the same time. With --forks, N children compile
 * one after the other, while threads of the parent create programs. With --hold, the process ends
 * when its standard input does. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct program;
int nvrtcCreateProgram(struct program **ret, const char *source, const char *name, int count,
                       const char *const *headers, const char *const *names);
int nvrtcDestroyProgram(struct program **program);
int nvrtcAddNameExpression(struct program *program, const char *expression);
int nvrtcCompileProgram(struct program *program, int count, const char *const *options);
int nvrtcGetLoweredName(struct program *program, const char *expression, const char **ret);
int nvrtcGetCUBINSize(struct program *program, size_t *ret);
int nvrtcGetCUBIN(struct program *program, char *ret);
int nvrtcGetPTXSize(struct program *program, size_t *ret);
int nvrtcGetPTX(struct program *program, char *ret);
int nvrtcGetLTOIRSize(struct program *program, size_t *ret);
int nvrtcGetLTOIR(struct program *program, char *ret);
int nvrtcGetOptiXIRSize(struct program *program, size_t *ret);
int nvrtcGetOptiXIR(struct program *program, char *ret);
int nvrtcGetProgramLogSize(struct program *program, size_t *ret);
int nvrtcGetProgramLog(struct program *program, char *ret);

/* clang-format off */
#define EACH_FUNCTION(F) \
    F(CreateProgram) F(DestroyProgram) F(AddNameExpression) F(CompileProgram) F(GetLoweredName) \
    F(GetCUBINSize) F(GetCUBIN) F(GetPTXSize) F(GetPTX) F(GetLTOIRSize) F(GetLTOIR) \
    F(GetOptiXIRSize) F(GetOptiXIR) F(GetProgramLogSize) F(GetProgramLog)
/* clang-format on */

#define MEMBER(name) __typeof__(&nvrtc##name) name;
static struct {
    EACH_FUNCTION(MEMBER)
} api;

static struct {
    const char *library, *name, *expression, *missing, *header_name, *header;
    const char *options[32];
    int option_count, processes, forks;
    int flags, hold;
} given = { .flags = RTLD_NOW };

static void load(void)
{
#ifdef LINKED
#define TAKE(name) api.name = nvrtc##name;
    if (!given.library) {
        EACH_FUNCTION(TAKE)
        return;
    }
#endif
    void *handle = dlopen(given.library, given.flags);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
#define LOOK_UP(name)                               \
    {                                               \
        void *found = dlsym(handle, "nvrtc" #name); \
        memcpy(&api.name, &found, sizeof(found));   \
    }
    EACH_FUNCTION(LOOK_UP)
}

static void print_bytes(const char *what, const char *bytes, size_t size)
{
    unsigned long hash = 1469598103934665603ul;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211ul;
    printf("%s %zu %016lx", what, size, hash);
    if (size < 200 && strcmp(what, "log") == 0)
        printf(" %.*s", (int)size, bytes);
    printf("\n");
}

static void print_output(struct program *p, const char *what,
                         int (*get_size)(struct program *, size_t *),
                         int (*get)(struct program *, char *))
{
    size_t size = 0;
    int size_rc = get_size(p, &size);
    char *bytes = calloc(1, size + 1);
    int rc = get(p, bytes);
    printf("%d %d ", size_rc, rc);
    print_bytes(what, bytes, size);
    free(bytes);
}

static char *unescape(const char *text)
{
    char *copy = strdup(text);
    for (char *at = copy; (at = strstr(at, "\\n"));) {
        *at = '\n';
        memmove(at + 1, at + 2, strlen(at + 2) + 1);
    }
    return copy;
}

static int compile(const char *text)
{
    struct program *p = NULL;
    char *source = unescape(text);
    const char *lowered = "none";
    int rc = api.CreateProgram(&p, source, given.name, given.header ? 1 : 0, &given.header,
                               &given.header_name);
    if (!rc && given.expression)
        rc = api.AddNameExpression(p, given.expression);
    free(source);
    if (rc)
        return rc;
    rc = api.CompileProgram(p, given.option_count, given.options);
    printf("compile %d\n", rc);
    print_output(p, "cubin", api.GetCUBINSize, api.GetCUBIN);
    print_output(p, "ptx", api.GetPTXSize, api.GetPTX);
    print_output(p, "lto", api.GetLTOIRSize, api.GetLTOIR);
    print_output(p, "optix", api.GetOptiXIRSize, api.GetOptiXIR);
    print_output(p, "log", api.GetProgramLogSize, api.GetProgramLog);
    if (given.expression) {
        const char *other;
        rc = api.GetLoweredName(p, given.expression, &lowered);
        if (given.missing)
            printf("missing %d\n", api.GetLoweredName(p, given.missing, &other));
        printf("lowered %d %s\n", rc, lowered);
    }
    return api.DestroyProgram(&p);
}

static int compile_all(char **sources)
{
    for (; *sources; sources++)
        if (compile(*sources))
            return 1;
    return 0;
}

static int run_processes(char **sources)
{
    int failed = 0, status;
    for (int i = 0; i < given.processes; i++) {
        pid_t child = fork();
        if (child == 0) {
            load();
            exit(compile_all(sources));
        }
        failed |= child < 0;
    }
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}

static void *create_programs(void *unused)
{
    (void)unused;
    for (;;) {
        struct program *p = NULL;
        if (api.CreateProgram(&p, "", NULL, 0, NULL, NULL) || api.DestroyProgram(&p))
            abort();
    }
}

/* A child that does not end within a minute is killed. */
static int compile_in_child(char **sources)
{
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(compile_all(sources));
    }
    return child < 0 || wait(&status) != child || status != 0;
}

static void run_forks(char **sources)
{
    pthread_t thread;
    int failed = 0;
    load();
    for (int i = 0; i < 2; i++)
        failed |= pthread_create(&thread, NULL, create_programs, NULL);
    for (int i = 0; i < given.forks && !failed; i++)
        failed = compile_in_child(sources);
    _exit(failed);
}

static int take_option(const char *name, const char *value)
{
    if (strcmp(name, "--library") == 0)
        given.library = value;
    else if (strcmp(name, "--name") == 0)
        given.name = value;
    else if (strcmp(name, "--expression") == 0)
        given.expression = value;
    else if (strcmp(name, "--missing") == 0)
        given.missing = value;
    else if (strcmp(name, "--option") == 0 && given.option_count < 32)
        given.options[given.option_count++] = value;
    else if (strcmp(name, "--processes") == 0)
        given.processes = atoi(value);
    else if (strcmp(name, "--forks") == 0)
        given.forks = atoi(value);
    else if (strcmp(name, "--header") == 0 && strchr(value, '=')) {
        given.header = strchr(value, '=') + 1;
        given.header_name = strndup(value, (size_t)(given.header - 1 - value));
    } else
        return 0;
    return 1;
}

int main(int argc, char **argv)
{
    int at = 1;
    while (at < argc && strncmp(argv[at], "--", 2) == 0) {
        if (strcmp(argv[at], "--deepbind") == 0) {
            given.flags |= RTLD_DEEPBIND;
            at++;
        } else if (strcmp(argv[at], "--hold") == 0) {
            given.hold = 1;
            at++;
        } else if (at + 1 < argc && take_option(argv[at], argv[at + 1])) {
            at += 2;
        } else {
            fprintf(stderr, "job: bad option '%s'\n", argv[at]);
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOFBF, 65536); /* each process prints in one piece */
    if (given.processes)
        return run_processes(&argv[at]);
    if (given.forks)
        run_forks(&argv[at]);
    load();
    int rc = compile_all(&argv[at]);
    fflush(stdout);
    while (given.hold && getchar() != EOF)
        ;
    return rc;
}
