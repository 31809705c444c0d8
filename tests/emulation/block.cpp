#include "tests/emulation/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

// Saves what a call must preserve on the stack that is left, and takes it from the other one.
extern "C" void longbow_switch_stack(void** from, void* to);
asm(R"(
.text
.globl longbow_switch_stack
.type longbow_switch_stack, @function
longbow_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size longbow_switch_stack, .-longbow_switch_stack
)");

// All that kernels declare as __shared__.
extern "C" unsigned char __start_longbow_shared[], __stop_longbow_shared[];

namespace longbow::emulation {

const Thread* thread;
Index block;
dim3 threads, blocks;

namespace {

constexpr size_t kStack = (256 << 10) + 33 * 64;  // no power of two: lanes share no cache lines
constexpr size_t kMostBytes = 227 << 10, kMargin = 64;  // what an H200 has
constexpr unsigned kMostThreads = 1024, kMostWarps = kMostThreads / kLanes;
constexpr unsigned char kFree = 0xff, kEdge = 0xa5;  // memory that nobody has written; past the end

struct Copy {
  void* to;
  const void* from;
  bool there;
  unsigned bytes;
  unsigned group;
};

// Lanes that wait for each other.
struct Meeting {
  uint32_t mask = 0, arrived = 0;
  Instruction instruction = nullptr;
};
struct Warp {
  unsigned first = 0;  // of its threads
  uint32_t live = 0, ready = 0;
  Lanes lanes;
  Meeting meetings[kLanes];  // by the first lane of their mask
};

struct Fiber : Thread {
  uint32_t bit = 0;
  Warp* warp = nullptr;
  void* stack = nullptr;  // where it stands
  uintptr_t named = 0;
  unsigned groups = 0;  // that have ended
  std::vector<Copy> copies;
};

// The block that is running.
struct Running {
  Fiber fibers[kMostThreads];
  Warp warps[kMostWarps];
  Fiber* own = nullptr;  // the one that runs
  unsigned live = 0, arrived = 0;
  bool any = false, found = false;  // of those at the barrier; of those who were there last
  bool reversed = false;
  void* scheduler = nullptr;
  const std::function<void()>* body = nullptr;
};
Running now;
std::mutex one_at_a_time;
alignas(16) unsigned char memory[kMostBytes + kMargin];

unsigned char* stacks() {
  static auto* const all =
      static_cast<unsigned char*>(mmap(nullptr, kStack * kMostThreads, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  return all;
}

// Goes on with another thread of a warp, or with the scheduler if all of them wait.
void go_on(const Warp& warp, void** left) {
  if (warp.ready == 0) return longbow_switch_stack(left, now.scheduler);
  now.own = now.fibers + warp.first +
            (now.reversed ? 31 - __builtin_clz(warp.ready) : __builtin_ctz(warp.ready));
  thread = now.own;
  longbow_switch_stack(left, now.own->stack);
}

void wait() {
  auto& own = *now.own;
  own.warp->ready &= ~own.bit;
  go_on(*own.warp, &own.stack);
}

// Those who wait at the barrier go on once nobody else can come.
void settle_barrier() {
  if (now.arrived == 0 || now.arrived < now.live) return;
  now.arrived = 0;
  now.found = now.any;
  now.any = false;
  for (auto& warp : now.warps) warp.ready = warp.live;
}

// The same for an instruction of some lanes; what the others give is not a number.
void settle(Warp& warp, Meeting& meeting) {
  if (meeting.arrived == 0 || meeting.arrived != (meeting.mask & warp.live)) return;
  warp.ready |= meeting.arrived;
  warp.lanes.present = std::exchange(meeting.arrived, 0);
  if (warp.lanes.present == 0xffffffffu) return meeting.instruction(warp.lanes);
  static const std::vector<unsigned char> nothing(64, kFree);
  Lanes lanes = warp.lanes;
  for (int i = 0; i < kLanes; ++i)
    if (!lanes.has(i)) lanes.in[i] = nothing.data();
  meeting.instruction(lanes);
}

void leave() {
  const auto& own = *now.own;
  if (!own.copies.empty()) fail("a thread ended before its copies had arrived");
  own.warp->live &= ~own.bit;
  own.warp->ready &= ~own.bit;
  for (auto& meeting : own.warp->meetings) settle(*own.warp, meeting);
  --now.live;
  settle_barrier();
  void* ended;
  go_on(*own.warp, &ended);
}

void enter() {
  (*now.body)();
  leave();
  __builtin_unreachable();
}

void prepare(unsigned number) {
  auto* top = reinterpret_cast<void**>(stacks() + kStack * (number + 1));
  *--top = nullptr;  // what `enter` would return to: keeps the stack aligned as after a call
  *--top = reinterpret_cast<void*>(&enter);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  auto& fiber = now.fibers[number];
  auto& warp = now.warps[number / kLanes];
  fiber.stack = top;
  fiber.warp = &warp;
  fiber.lane = static_cast<int>(number % kLanes);
  fiber.bit = 1u << fiber.lane;
  fiber.index = {number % threads.x, number / threads.x % threads.y,
                 number / threads.x / threads.y};
  fiber.named = 0;
  fiber.groups = 0;
  fiber.copies.clear();
  warp.first = number - number % kLanes;
  warp.live |= fiber.bit;
  warp.ready = warp.live;
}

void run_block(size_t bytes) {
  const unsigned count = threads.x * threads.y * threads.z, all = (count + kLanes - 1) / kLanes;
  now.live = count;
  for (unsigned i = 0; i < count; ++i) prepare(i);
  std::memset(memory, kFree, bytes);
  std::memset(memory + bytes, kEdge, kMargin);
  while (now.live > 0) {
    bool moved = false;
    for (unsigned i = 0; i < all; ++i) {
      const auto& warp = now.warps[now.reversed ? all - 1 - i : i];
      if (warp.ready == 0) continue;
      go_on(warp, &now.scheduler);
      moved = true;
    }
    if (!moved) fail("threads wait for each other without end");
  }
  for (size_t i = 0; i < kMargin; ++i)
    if (memory[bytes + i] != kEdge) fail("a thread wrote past the memory of its block");
}

// Says which thread it was.
void on_signal(int signal) {
  if (now.body != nullptr)
    fail(signal == SIGILL ? "an address is not aligned, or an index is outside of its array"
                          : "an address is outside of all memory");
  std::signal(signal, SIG_DFL);
}

void arrive(const Copy& copy) {
  if (copy.there)
    std::memcpy(copy.to, copy.from, copy.bytes);
  else
    std::memset(copy.to, 0, copy.bytes);
}

}  // namespace

void fail(const char* what) {
  std::fprintf(stderr, "emulated GPU: %s (block %u %u %u, thread %u %u %u)\n", what, block.x,
               block.y, block.z, thread->index.x, thread->index.y, thread->index.z);
  std::abort();
}

size_t most_memory() {
  static const size_t bytes = [] {
    const char* const less = std::getenv("LONGBOW_EMULATED_KIB");
    return less ? std::min<size_t>(std::strtoul(less, nullptr, 10) << 10, kMostBytes) : kMostBytes;
  }();
  return bytes;
}

void run(dim3 grid, dim3 size, size_t bytes, const std::function<void()>& body) {
  const std::lock_guard guard(one_at_a_time);
  threads = size;
  blocks = grid;
  block = {};
  thread = now.fibers;
  const uint64_t count = uint64_t{size.x} * size.y * size.z;
  if (count == 0 || count > kMostThreads) fail("a block has 1 to 1024 threads");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > INT32_MAX || grid.y > 65535 ||
      grid.z > 65535)
    fail("a launch has 1 to 2147483647 x 65535 x 65535 blocks");
  if (bytes > most_memory()) fail("a block has less memory than the launch asks for");
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL}) std::signal(signal, on_signal);
  std::memset(__start_longbow_shared, kFree, __stop_longbow_shared - __start_longbow_shared);
  now.body = &body;
  for (block.z = 0; block.z < grid.z; ++block.z)
    for (block.y = 0; block.y < grid.y; ++block.y)
      for (block.x = 0; block.x < grid.x; ++block.x) {
        now.reversed = !now.reversed;
        run_block(bytes);
      }
  now.body = nullptr;
}

unsigned char* dynamic_memory() {
  return memory;
}

bool meet(int any) {
  ++now.arrived;
  now.any |= any != 0;
  settle_barrier();
  if (now.arrived > 0) wait();
  return now.found;
}

void execute(uint32_t mask, const void* in, void* out, Instruction instruction) {
  const auto& own = *now.own;
  if (!(mask & own.bit)) fail("a thread is not in the mask that it names");
  auto& warp = *own.warp;
  auto& meeting = warp.meetings[__builtin_ctz(mask)];
  if (meeting.arrived == 0) {
    meeting.mask = mask;
    meeting.instruction = instruction;
  }
  if (meeting.mask != mask || meeting.instruction != instruction)
    fail("threads of a warp are at different instructions that all of them must reach");
  warp.lanes.in[own.lane] = in;
  warp.lanes.out[own.lane] = out;
  meeting.arrived |= own.bit;
  if (meeting.arrived == (mask & warp.live))
    settle(warp, meeting);
  else
    wait();
}

void name(const void* place) {
  const auto address = reinterpret_cast<uintptr_t>(place);
  if (address % 16 != 0) fail("a line of a matrix is not at a multiple of 16 bytes");
  now.own->named = now.own->named * 31 + address;
}

void check_warp(const Lanes& lanes) {
  if (lanes.present != 0xffffffffu) fail("an instruction needs all threads of a warp");
  const auto* fibers = now.fibers + now.own->warp->first;
  for (int i = 1; i < kLanes; ++i)
    if (fibers[i].named != fibers[0].named) fail("threads of a warp read different matrices");
}

void copy_later(void* to, const void* from, bool there, unsigned bytes) {
  if (reinterpret_cast<uintptr_t>(to) % bytes != 0 ||
      (there && reinterpret_cast<uintptr_t>(from) % bytes != 0))
    fail("a copy is not at a multiple of its size");
  auto& own = *now.own;
  own.copies.push_back({to, from, there, bytes, own.groups});
  if (now.reversed) arrive(own.copies.back());
}

void end_group() {
  ++now.own->groups;
}

void await_groups(unsigned pending) {
  auto& own = *now.own;
  auto copy = own.copies.begin();
  for (; copy != own.copies.end() && copy->group + pending < own.groups; ++copy)
    if (!now.reversed) arrive(*copy);
  own.copies.erase(own.copies.begin(), copy);
}

}  // namespace longbow::emulation
