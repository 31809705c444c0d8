#pragma once
// The threads of a CUDA block on a CPU: each is a fiber that runs until it waits for others, so
// that kernels run on machines without a GPU as they are written. Blocks run one after the other.
// From block to block the order of warps and lanes is reversed, and asynchronous copies arrive at
// the first or at the last possible moment: a result that depends on either shows that a barrier is
// missing. A kernel that breaks a rule of the device ends the process with a message.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned of_x = 1, unsigned of_y = 1, unsigned of_z = 1)
      : x(of_x), y(of_y), z(of_z) {}
};

namespace longbow::emulation {

constexpr int kLanes = 32;

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
// Of the thread that is running.
struct Thread {
  Index index;
  int lane = 0;
};
extern const Thread* thread;
extern Index block;
extern dim3 threads, blocks;

// Bytes of memory that a block has at most: 227 KiB, or fewer where LONGBOW_EMULATED_KIB says so.
size_t most_memory();

// Runs `body` once for each thread of each block, with `bytes` of memory for each block.
void run(dim3 grid, dim3 size, size_t bytes, const std::function<void()>& body);

unsigned char* dynamic_memory();
[[noreturn]] void fail(const char* what);

// Waits for all threads of the block that have not ended; whether `any` was not 0 in one of them.
bool meet(int any);

// What lanes of a warp give to an instruction that they execute together, and receive from it.
struct Lanes {
  uint32_t present = 0;
  const void* in[kLanes] = {};
  void* out[kLanes] = {};

  bool has(int lane) const { return present >> lane & 1; }
  template <class T>
  const T& given(int lane) const {
    return *static_cast<const T*>(in[lane]);
  }
  template <class T>
  void give(int lane, const T& value) const {
    *static_cast<T*>(out[lane]) = value;
  }
};
using Instruction = void (*)(const Lanes&);

// Waits for all lanes of `mask` that have not ended; the last one executes the instruction.
void execute(uint32_t mask, const void* in, void* out, Instruction instruction);

template <class Out, class In>
Out executed(uint32_t mask, const In& in, Instruction instruction) {
  Out out;
  execute(mask, &in, &out, instruction);
  return out;
}
// Of all lanes.
template <class Out, class In>
Out executed(const In& in, Instruction instruction) {
  return executed<Out>(0xffffffffu, in, instruction);
}

// Places that all lanes of a warp must name alike before an instruction that needs the whole warp,
// which calls check_warp.
void name(const void* place);
void check_warp(const Lanes& lanes);

// Bytes, zeros if they are not `there`, that a thread does not see before it waits for them.
void copy_later(void* to, const void* from, bool there, unsigned bytes);
void end_group();
void await_groups(unsigned pending);

}  // namespace longbow::emulation
