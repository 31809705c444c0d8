#pragma once
// Too large a tensor is an error, not the end of the process: Linux promises more memory than there
// is, and kills whoever takes it at its word.
#include <cstddef>

namespace longbow::cli {

// Tensors on the CPU that ask for more than is available throw c10::OutOfMemoryError from now on.
void guard_memory();

// Throws it: "not enough memory: 16 GiB are asked for, 7.1 GiB are available".
[[noreturn]] void refuse_memory(double wanted, double available);

}  // namespace longbow::cli
