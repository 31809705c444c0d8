#pragma once
// One source for several instruction sets, chosen when the program runs. A task is a struct with
//   template <class M> void on() const,
// always inlined as all that it calls, so that M::run(task) is compiled for the machine M alone.
// Vectors are never passed by value: without the instructions a caller would pass them otherwise.
#include <cstdint>

namespace longbow::kernels {

// Bytes of a vector, and how many rows of how many vectors a product keeps in registers.
struct Portable {
  static constexpr int kBytes = 16, kRows = 4, kVectors = 2;
  static bool is_here() { return true; }
  template <class Task>
  [[gnu::noinline]] static void run(const Task& task) {
    task.template on<Portable>();
  }
};

#ifdef __x86_64__
struct Avx2 {
  static constexpr int kBytes = 32, kRows = 6, kVectors = 2;
  static bool is_here() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
  template <class Task>
  [[gnu::noinline, gnu::target("avx2,fma")]] static void run(const Task& task) {
    task.template on<Avx2>();
  }
};

struct Avx512 {
  static constexpr int kBytes = 64, kRows = 8, kVectors = 2;
  static bool is_here() {
    return Avx2::is_here() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
  }
  template <class Task>
  [[gnu::noinline, gnu::target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]] static void run(
      const Task& task) {
    task.template on<Avx512>();
  }
};
#endif

// The best that this machine has, or what ATEN_CPU_CAPABILITY says, as for LibTorch's own kernels:
// default, avx2, avx512.
enum class Instructions { portable, avx2, avx512 };
Instructions instructions_here();

template <class Task>
void run_here(const Task& task) {
#ifdef __x86_64__
  const auto here = instructions_here();
  if (here == Instructions::avx512) return Avx512::run(task);
  if (here == Instructions::avx2) return Avx2::run(task);
#endif
  Portable::run(task);
}

// As many numbers as fill whole vectors on any machine.
template <class T>
constexpr int64_t padded(int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(T);
  return (count + kLine - 1) / kLine * kLine;
}

// A vector of T, and one of integers of the same size.
template <class M, class T>
struct Lanes;
template <class M>
struct Lanes<M, float> {
  typedef float V __attribute__((vector_size(M::kBytes)));
  typedef int32_t I __attribute__((vector_size(M::kBytes)));
};
template <class M>
struct Lanes<M, double> {
  typedef double V __attribute__((vector_size(M::kBytes)));
  typedef int64_t I __attribute__((vector_size(M::kBytes)));
};
template <class M>
struct Lanes<M, int32_t> {
  typedef int32_t V __attribute__((vector_size(M::kBytes)));
};
template <class M, class T>
using Vector = typename Lanes<M, T>::V;
template <class M, class T>
constexpr int64_t kLanes = M::kBytes / static_cast<int>(sizeof(T));

// From and to any place: a reference to a vector would have to be aligned.
template <class V, class T>
[[gnu::always_inline]] inline void load(V& x, const T* from) {
  __builtin_memcpy(&x, from, sizeof(V));
}
template <class V, class T>
[[gnu::always_inline]] inline void store(const V& x, T* to) {
  __builtin_memcpy(to, &x, sizeof(V));
}

}  // namespace longbow::kernels
