#pragma once
// A lesson is a generated task, a model and the loss that the model must get below. Every mechanism
// must reach it, and a model in which no token sees another must not.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "longbow/train/run/run_config.h"

namespace longbow {

// What can be known of a lesson before anybody learns it.
struct Outlook {
  double blind = 0;  // loss of the best guess by one who sees less than the lesson asks for
  double least = 0;  // nobody loses less, but for the luck of a test split
};

struct Lesson {
  std::string name, task, objective = {};
  std::string data, model, train;  // YAML
  double loss = 0;                 // to reach on the test split
  // From the lesson's config, its data, and the metrics of the test split.
  Outlook (*outlook)(const RunConfig&, const Splits&, const nlohmann::json&) = nullptr;
  std::string loss_name = "loss";
  int64_t rank = 6, window = 4;  // of the low-rank and of the windowed mechanism
  // Where the model names mechanisms; one that cannot read a second sequence leaves cross-attention
  // to softmax.
  std::vector<std::string> places = {"attention"}, cross_places = {};
};
inline void PrintTo(const Lesson& lesson, std::ostream* out) {
  *out << lesson.name;
}

struct Means {
  std::string name;
  bool cross = true, mixes = true;
};
inline void PrintTo(const Means& means, std::ostream* out) {
  *out << means.name;
}

using LessonCase = std::tuple<Lesson, Means>;
using LessonTest = testing::TestWithParam<LessonCase>;
std::string test_name(const testing::TestParamInfo<LessonCase>& info);

// Every lesson by an exact, a linear, a low-rank and a windowed mechanism, and by none.
std::vector<LessonCase> by_every_mechanism(const std::vector<Lesson>& lessons);

RunConfig config_of(const Lesson& lesson, const Means& means);

// Learns, and expects the stated loss with a mechanism and a larger one with none. Returns the
// metrics of the test split.
nlohmann::json expect_learnt(const Lesson& lesson, const Means& means);

// Outlooks.
// The class, or the spread of the values, given the first token of every sequence, by counting in
// the training split.
Outlook given_first_tokens(const RunConfig&, const Splits&, const nlohmann::json&);
// The next word given the last; the least is the entropy of the chain.
Outlook given_last_word(const RunConfig&, const Splits&, const nlohmann::json&);

}  // namespace longbow
