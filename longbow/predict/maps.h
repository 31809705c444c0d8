#pragma once
// What every layer of a trained model weighs when it reads a sample.
#include "longbow/predict/map_axes.h"
#include "longbow/tasks/task.h"

namespace longbow::predict {

// The weights of one layer over one sequence.
struct LayerMap {
  std::string name;
  Tensor weights;  // [H, queries, keys], on the CPU
  MapAxes axes;
};

// Of a sample with its targets, in the order in which it meets the layers; the first `limit`
// queries, 0 = all.
std::vector<LayerMap> maps_of(Task& task, const std::string& objective, const Dataset& data,
                              int64_t sample, int64_t limit);
// Of a sample that was read from a text: what the model writes itself stands for its target.
std::vector<LayerMap> maps_of_text(Task& task, const std::string& objective, const Dataset& inputs,
                                   int64_t limit);

}  // namespace longbow::predict
