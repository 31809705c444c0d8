#pragma once
// What a bench measures: one layer, or one model, at one length.
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>

#include "longbow/cli/commands.h"
#include "longbow/core/config.h"
#include "longbow/train/run/run_config.h"

namespace longbow::cli {

struct BenchSubject {
  std::string label;
  Node options;  // {name: …}
};

// What one call of a layer does, counted.
struct BenchWork {
  int64_t launches = 0;
  double operations = 0, moved_bytes = 0;
};

struct BenchSample {
  std::string label, mode;
  int64_t length = 0, tokens = 0;       // of a sequence; that a call reads, or writes, in all
  double median = 0, p20 = 0, p80 = 0;  // seconds
  double processor = 0;  // least seconds of all threads; on a GPU and of a model, of the clock
  double peak_bytes = 0;
  std::optional<BenchWork> work = {};  // nothing of a whole model
  std::optional<double> error = {};    // nothing where float64 does not fit into memory
  std::string profile = "";            // empty unless asked for
  std::string status = "ok", reason = "";
};

// Whether a layer is timed under a causal mask: asked for, or there is no other form.
bool is_causal(const BenchSubject& subject, const BenchCommand& command);

// The modes of a bench with --config: whole training steps, and a token more of every text.
inline constexpr const char *kModelMode = "model", *kWritingMode = "model_decode";
// The run config of --config with the mechanism in its model.
RunConfig bench_model(const BenchSubject& subject, const BenchCommand& command);

at::ScalarType parse_bench_dtype(const std::string& text);

BenchSample bench_sample(const BenchSubject& subject, const BenchCommand& command,
                         const std::string& mode, int64_t length);

}  // namespace longbow::cli
