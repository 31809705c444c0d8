#pragma once
// How many threads compute, and how they wait for each other.
#include <cstdint>
#include <string>

namespace longbow::cli {

// Lets OpenMP threads sleep while they wait, unless the environment says how they wait. By default
// GNU's runtime spins at the end of every parallel loop: when another process needs a core, each
// loop then lasts until the scheduler has given that process its turn. The runtime reads its
// environment before main(), so this replaces the process by one with OMP_WAIT_POLICY=passive. To
// be called from .preinit_array, where nothing else has started yet.
void wait_passively(int argc, char** argv, char** environment);

// The setting that is in force, "OMP_WAIT_POLICY=passive", or what happens without any.
std::string wait_setting();

constexpr int64_t kMostThreads = 4096;
void set_threads(int64_t count);

}  // namespace longbow::cli
