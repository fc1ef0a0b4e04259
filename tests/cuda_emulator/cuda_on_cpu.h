// CUDA's execution model as far as generated kernels use it, on one thread of a CPU, for tests.
//
// Blocks run one after the other.  A block's threads are fibers: each runs until it waits at a barrier or a shuffle, or
// ends.  They take turns in an order that the caller chooses; a kernel that lacks a barrier gives other results in
// another order.  What a GPU would hang on or leave undefined is reported: threads that wait at different barriers or
// shuffles, or for threads that have ended, and writes behind the dynamic shared memory that was asked for.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <setjmp.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ thread_local  // one block at a time: a static variable is what its threads share

struct cuda_index { unsigned x, y, z; };
cuda_index threadIdx, blockIdx, blockDim, gridDim;

enum class State { ready, barrier, shuffle, ended };

struct Fiber {
  ucontext_t context;  // where it starts
  jmp_buf place;       // where it goes on: jumps are several times faster than swapping contexts
  bool started;
  State state;
  int line;  // of the barrier or shuffle it waits at
  unsigned long long value;
  int mask;
};

struct Block {
  jmp_buf scheduler;
  std::vector<Fiber> fibers;
  Fiber *current = nullptr;
};
Block *cuda_block = nullptr;

inline void cuda_wait(State state, int line) {
  Fiber &fiber = *cuda_block->current;
  fiber.state = state;
  fiber.line = line;
  if (_setjmp(fiber.place) == 0) _longjmp(cuda_block->scheduler, 1);
}

inline void __syncthreads(int line = __builtin_LINE()) { cuda_wait(State::barrier, line); }

template <class T> inline T __shfl_xor_sync(unsigned, T value, int mask, int line = __builtin_LINE()) {
  static_assert(sizeof(T) <= 8, "a shuffle moves up to 64 bits");
  Fiber &fiber = *cuda_block->current;
  std::memcpy(&fiber.value, &value, sizeof value);
  fiber.mask = mask;
  cuda_wait(State::shuffle, line);
  std::memcpy(&value, &fiber.value, sizeof value);
  return value;
}

inline unsigned long long atomicCAS(unsigned long long *place, unsigned long long expected, unsigned long long value) {
  const unsigned long long old = *place;
  if (old == expected) *place = value;
  return old;
}

inline float normcdff(float x) { return (float)(0.5 * std::erfc(-(double)x * 0.70710678118654752440)); }
inline double normcdf(double x) { return (double)(0.5L * std::erfc(-(long double)x * 0.707106781186547524400844362104849L)); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __uint_as_float(unsigned bits) { float x; std::memcpy(&x, &bits, 4); return x; }
inline unsigned __float_as_uint(float x) { unsigned bits; std::memcpy(&bits, &x, 4); return bits; }
inline float __int_as_float(int bits) { return __uint_as_float((unsigned)bits); }
inline float cuda_float_of_half(unsigned short bits) { _Float16 x; std::memcpy(&x, &bits, 2); return (float)x; }
inline unsigned short cuda_half_of_float(float x) {
  const _Float16 half = (_Float16)x;
  unsigned short bits;
  std::memcpy(&bits, &half, 2);
  return bits;
}

// ---------------------------------------------------------------------------------------------- launching

template <class... A, std::size_t... I>
void cuda_call(void (*kernel)(A...), const unsigned long long *slots, std::index_sequence<I...>) {
  kernel((A)slots[I]...);
}
template <class... A> void cuda_call(void (*kernel)(A...), const unsigned long long *slots) {
  cuda_call(kernel, slots, std::index_sequence_for<A...>());
}

typedef void (*Entry)(const unsigned long long *slots);
Entry cuda_entry;
const unsigned long long *cuda_slots;
char cuda_message[256];

inline void cuda_thread() {
  cuda_entry(cuda_slots);
  cuda_block->current->state = State::ended;
  _longjmp(cuda_block->scheduler, 1);
}

// Runs the thread until it waits or ends.
__attribute__((noinline)) void cuda_resume(Fiber &fiber) {
  cuda_block->current = &fiber;
  if (_setjmp(cuda_block->scheduler) != 0) return;
  if (fiber.started) _longjmp(fiber.place, 1);
  fiber.started = true;
  setcontext(&fiber.context);
}

// Lets the lanes of warps go on in which all wait at the same shuffle.
inline bool cuda_release_warps(std::vector<Fiber> &fibers) {
  bool released = false;
  for (std::size_t first = 0; first < fibers.size(); first += 32) {
    Fiber *lanes = &fibers[first];
    bool together = true;
    for (int i = 0; i < 32; ++i)
      together &= lanes[i].state == State::shuffle && lanes[i].line == lanes[0].line && lanes[i].mask == lanes[0].mask;
    if (!together) continue;
    unsigned long long values[32];
    for (int i = 0; i < 32; ++i) values[i] = lanes[i].value;
    for (int i = 0; i < 32; ++i) lanes[i].value = values[i ^ lanes[i].mask], lanes[i].state = State::ready;
    released = true;
  }
  return released;
}

inline bool cuda_release_block(std::vector<Fiber> &fibers) {
  for (Fiber &fiber : fibers)
    if (fiber.state != State::barrier || fiber.line != fibers[0].line) return false;
  for (Fiber &fiber : fibers) fiber.state = State::ready;
  return true;
}

// order 0: the first thread first; 1: the last first; others: a shuffled order.
inline std::size_t cuda_turn(std::size_t turn, std::size_t count, int order) {
  if (order == 0) return turn;
  if (order == 1) return count - 1 - turn;
  return (turn * 37 + 11 * (std::size_t)order) % count;  // the count is a power of two
}

inline bool cuda_run_block(char *stacks, std::size_t stack, unsigned threads, int order) {
  Block block;
  block.fibers.resize(threads);
  cuda_block = &block;
  for (unsigned t = 0; t < threads; ++t) {
    Fiber &fiber = block.fibers[t];
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks + t * stack;
    fiber.context.uc_stack.ss_size = stack;
    fiber.state = State::ready;
    fiber.started = false;
    makecontext(&fiber.context, cuda_thread, 0);
  }
  for (;;) {
    unsigned ended = 0;
    for (unsigned turn = 0; turn < threads; ++turn) {
      const unsigned t = (unsigned)cuda_turn(turn, threads, order);
      Fiber &fiber = block.fibers[t];
      if (fiber.state == State::ready) {
        threadIdx = {t, 0, 0};
        cuda_resume(fiber);
      }
      ended += fiber.state == State::ended;
    }
    if (ended == threads) return true;
    if (cuda_release_warps(block.fibers) || cuda_release_block(block.fibers)) continue;
    for (Fiber &fiber : block.fibers)
      if (fiber.state == State::barrier || fiber.state == State::shuffle) {
        std::snprintf(cuda_message, sizeof cuda_message,
                      "block %u: threads wait at the %s in line %d for others that do not come (%u of %u have ended)",
                      blockIdx.x, fiber.state == State::barrier ? "barrier" : "shuffle", fiber.line, ended, threads);
        return false;
      }
  }
}

const unsigned cuda_shared_bytes = 48 * 1024;
__align__(64) thread_local unsigned char pl_shared[cuda_shared_bytes];

// Runs a kernel; the empty string, or what went wrong.  `slots` are the arguments, 64 bits each.
extern "C" const char *cuda_launch(Entry entry, const unsigned long long *slots, unsigned grid, unsigned threads,
                                   unsigned shared_bytes, int order) {
  const std::size_t stack = 64 * 1024;
  const std::unique_ptr<char[]> stacks(new char[threads * stack]);
  cuda_entry = entry;
  cuda_slots = slots;
  cuda_message[0] = 0;
  blockDim = {threads, 1, 1};
  gridDim = {grid, 1, 1};
  for (unsigned turn = 0; turn < grid; ++turn) {
    blockIdx = {order == 1 ? grid - 1 - turn : turn, 0, 0};
    std::memset(pl_shared, 0xff, sizeof pl_shared);  // not a number, and a negative index
    if (!cuda_run_block(stacks.get(), stack, threads, order)) break;
    for (unsigned i = shared_bytes; i < sizeof pl_shared; ++i)
      if (pl_shared[i] != 0xff) {
        std::snprintf(cuda_message, sizeof cuda_message, "block %u wrote byte %u of %u of dynamic shared memory",
                      blockIdx.x, i, shared_bytes);
        return cuda_message;
      }
  }
  return cuda_message;
}
