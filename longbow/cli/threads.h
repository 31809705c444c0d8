#pragma once
// How many threads compute, and how they wait for each other.
#include <cstdint>
#include <string>

namespace longbow::cli {

// Lets OpenMP threads sleep after a moment while they wait, unless the environment says how they
// wait. By default GNU's runtime spins for milliseconds at the end of every parallel loop: when
// another process needs a core, each loop then lasts until the scheduler has given that process its
// turn. A thousand turns are long enough for the other threads of a machine that does nothing else.
// The runtime reads its environment before main(), so this replaces the process by one with
// OMP_WAIT_POLICY=passive and GOMP_SPINCOUNT=1000. To be called from .preinit_array, where nothing
// else has started yet.
void wait_passively(int argc, char** argv, char** environment);

// The settings that are in force, "OMP_WAIT_POLICY=passive", or what happens without any.
std::string wait_setting();

constexpr int64_t kMostThreads = 4096;
void set_threads(int64_t count);  // as --threads says
int64_t given_threads();          // 0 = nothing was said

}  // namespace longbow::cli
