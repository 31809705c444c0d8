#pragma once
#include <optional>
#include <string>
#include <vector>

#include "longbow/report/table/grid.h"
#include "longbow/report/table/record.h"

namespace longbow::reporting {

bool is_reference(
    const std::string& mechanism);  // fused softmax, which every other row is measured against

std::vector<std::string> bench_modes(const Record& record);
std::vector<std::string> bench_mechanisms(const Record& record, const std::string& mode);
std::vector<double> bench_lengths(const Record& record, const std::string& mode);
const Benchmark* find_benchmark(const Record& record, const std::string& mode,
                                const std::string& mechanism, double length);

Grid time_grid(const Record& record, const std::string& mode);
Grid memory_grid(const Record& record, const std::string& mode);
Grid error_grid(const Record& record, const std::string& mode);
Grid growth_grid(const Record& record);
Grid bench_failure_grid(const Record& record);

std::vector<Grid> mode_grids(const Record& record,
                             const std::string& mode);  // time, and what else was measured
std::vector<Grid> bench_grids(
    const Record& record);  // all of them that have rows, in reading order

}  // namespace longbow::reporting
