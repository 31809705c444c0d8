#pragma once
#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace longbow {

// body(first, last) over parts of 0 … count - 1, on the threads of LibTorch. at::parallel_for is a
// template, which runs on one thread where its caller was compiled without OpenMP, as we are.
// `work` says what one of them costs, in multiplications or the like: few are not shared out.
void in_parallel(int64_t count, int64_t work, c10::function_ref<void(int64_t, int64_t)> body);

}  // namespace longbow
