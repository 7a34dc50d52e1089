/* A CUDA runtime for tests: memory is the host's, and a kernel is the function below that has its
   name. Launches, allocations and copies are counted; an error can be planned. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned x, y, z; } dim3;
typedef void (*kernel)(void **arguments, dim3 grid, dim3 block);

int fake_devices = 1, fake_current = 0, fake_driver = 13000, fake_capability = 90;
int fake_planned = 0;         /* the error of the next launch, if not 0 */
int fake_late = 0;            /* the error of the next wait */
int64_t fake_room = 1 << 30;  /* bytes that can be allocated */
int64_t fake_live = 0, fake_copied = 0, fake_launches = 0;
int64_t fake_waits[8], fake_waited = 0, fake_stream = 0, fake_shared = 0;
int fake_grid[3], fake_block[3];
static int last = 0;

#define MANY 4096
static struct { char *start; size_t size; int device; } lives[MANY];
static struct { const void *host; char name[128]; } kernels[MANY];
static int known = 0;

static int failed(int error) { if (error) last = error; return error; }
int cudaGetLastError(void) { int error = last; last = 0; return error; }
const char *cudaGetErrorName(int error) { return error == 2 ? "cudaErrorMemoryAllocation" : "cudaErrorFake"; }
const char *cudaGetErrorString(int error) { return "fake text"; }
int cudaGetDeviceCount(int *count) {
    *count = fake_devices;
    return failed(fake_driver == 0 ? 35 : fake_devices == 0 ? 100 : 0);
}
int cudaGetDevice(int *device) { *device = fake_current; return failed(fake_driver == 0 ? 35 : 0); }
int cudaSetDevice(int device) { fake_current = device; return 0; }
int cudaGetDeviceProperties(char *properties, int device) { strcpy(properties, "NVIDIA H100 80GB HBM3"); return 0; }
int cudaDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? fake_capability / 10 : attribute == 76 ? fake_capability % 10 : 132;
    return 0;
}
int cudaDriverGetVersion(int *version) { *version = fake_driver; return 0; }
int cudaRuntimeGetVersion(int *version) { *version = 13000; return 0; }
int cudaMalloc(void **address, size_t size) {
    if (fake_driver == 0) return failed(35);
    if (fake_live + (int64_t)size > fake_room) return failed(2);
    for (int n = 0; n < MANY; n++)
        if (!lives[n].start) {
            if (posix_memalign(address, 256, size)) return failed(2);
            memset(*address, 0xA5, size);
            lives[n].start = *address, lives[n].size = size, lives[n].device = fake_current;
            fake_live += size;
            return 0;
        }
    return failed(2);
}
int cudaFree(void *address) {
    for (int n = 0; n < MANY; n++)
        if (lives[n].start == address && address) {
            fake_live -= lives[n].size, lives[n].start = 0;
            free(address);
            return 0;
        }
    return failed(1);
}
void fake_belongs(void *address, int device) {
    for (int n = 0; n < MANY; n++) if (lives[n].start == (char *)address) lives[n].device = device;
}
static double clock_now = 0;  /* milliseconds: 0.5 for a launch, 1 for a copy */
int cudaMemcpy(void *to, void *from, size_t size, int kind) {
    memcpy(to, from, size);
    clock_now += 1;
    fake_copied += size;
    return failed(kind == 4 ? 0 : 21);
}
int cudaMemset(void *to, int byte, size_t size) { memset(to, byte, size); return 0; }
int cudaMemcpyAsync(void *to, void *from, size_t size, int kind, void *stream) { memcpy(to, from, size); return 0; }
int cudaMemsetAsync(void *to, int byte, size_t size, void *stream) { memset(to, byte, size); return 0; }
int cudaPointerGetAttributes(int *attributes, void *address) {
    attributes[0] = 0, attributes[1] = -1;
    for (int n = 0; n < MANY; n++)
        if (lives[n].start && lives[n].start <= (char *)address && (char *)address < lives[n].start + lives[n].size)
            attributes[0] = 2, attributes[1] = lives[n].device;
    return 0;
}
int cudaStreamSynchronize(void *stream) {
    int error = fake_late;
    fake_waits[fake_waited++ % 8] = (int64_t)(intptr_t)stream, fake_late = 0;
    return failed(error);
}
int cudaEventCreate(void **event) { *event = calloc(1, sizeof(double)); return 0; }
int cudaEventRecord(void *event, void *stream) { *(double *)event = clock_now; return 0; }
int cudaEventSynchronize(void *event) { return cudaStreamSynchronize(0); }
int cudaEventElapsedTime(float *milliseconds, void *start, void *end) { *milliseconds = *(double *)end - *(double *)start; return 0; }
int cudaEventDestroy(void *event) { free(event); return 0; }

/* kernels, by name */
static void add(void **a, dim3 grid, dim3 block) {
    const float *x = *(float **)a[0], *y = *(float **)a[1];
    float *z = *(float **)a[2];
    for (unsigned n = 0; n < grid.x * block.x; n++) z[n] = x[n] + y[n];
}
static void twice(void **a, dim3 grid, dim3 block) {
    for (unsigned n = 0; n < grid.x * block.x; n++) (*(float **)a[1])[n] = 2 * (*(float **)a[0])[n];
}
static struct { const char *name; kernel run; } implemented[] = { {"add_kernel", add}, {"twice_kernel", twice} };

int cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream) {
    if (fake_driver == 0) return failed(35);
    if (fake_planned) { int error = fake_planned; fake_planned = 0; return failed(error); }
    const char *name = "";
    for (int n = 0; n < known; n++) if (kernels[n].host == function) name = kernels[n].name;
    size_t length = strlen(name);
    for (unsigned n = 0; n < sizeof implemented / sizeof *implemented; n++) {
        size_t own = strlen(implemented[n].name);
        if (length >= own && !strcmp(name + length - own, implemented[n].name)) {
            implemented[n].run(arguments, grid, block);
            fake_launches++, fake_stream = (int64_t)(intptr_t)stream, fake_shared = shared, clock_now += 0.5;
            fake_grid[0] = grid.x, fake_grid[1] = grid.y, fake_grid[2] = grid.z;
            fake_block[0] = block.x, fake_block[1] = block.y, fake_block[2] = block.z;
            return 0;
        }
    }
    return failed(98);
}
int cudaFuncSetAttribute(const void *function, int attribute, int value) { return 0; }

/* what the code that nvcc makes for the host calls */
void **__cudaRegisterFatBinary(void *binary) { static void *handle; return &handle; }
void __cudaRegisterFatBinaryEnd(void **handle) {}
void __cudaUnregisterFatBinary(void **handle) {}
void __cudaRegisterFunction(void **handle, const char *host, char *name, const char *device, int limit, void *t, void *b, void *d, void *g, int *size) {
    if (known < MANY) kernels[known].host = host, strncpy(kernels[known++].name, device, 127);
}
void __cudaRegisterVar(void **handle, char *host, char *name, const char *device, int external, size_t size, int constant, int global) {}
char __cudaInitModule(void **handle) { return 1; }
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) { return 0; }
int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) { return 0; }
int __cudaGetKernel(void **kernel, const void *function) { *kernel = (void *)function; return 0; }
int __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream) {
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
