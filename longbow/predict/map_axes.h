#pragma once
// What the rows and columns of an attention map are: tokens of a sample, or slots of a mechanism.
#include <string>
#include <vector>

#include "longbow/core/config.h"
#include "longbow/tasks/task.h"

namespace longbow::predict {

struct MapAxes {
  std::string mechanism;
  int64_t rows = 0, columns = 0;                     // that are no padding
  std::vector<std::string> queries = {}, keys = {};  // their tokens; empty where there are none
  std::string row_title = "queries", column_title = "keys";  // or slots, or molecules

  void keep_rows(int64_t limit);
};

// Reads the paths under which the layers of a task's model show their weights.
class MapReader {
 public:
  // `model` is the resolved model part of the run's config.
  MapReader(Node model, const std::string& objective, const Splits& splits, const Sample& sample);

  // In the order in which a sample meets them.
  bool comes_before(const std::string& path, const std::string& other) const;
  std::string name(const std::string& path) const;  // "layers.0", "decoder.layers.0.cross"
  // Of a map of `rows` and `columns` that the sequence (0, or 1 for the second of two that one
  // encoder reads) gave.
  MapAxes axes(const std::string& path, int64_t sequence, int64_t rows, int64_t columns) const;

 private:
  // Of the objective's sites, the one that the path is of.
  const AttentionSite& site_of(const std::string& path) const;
  Node options_at(const std::string& path) const;  // the mechanism's
  using Names = std::vector<std::string>;
  Node model_;
  std::vector<AttentionSite> sites_;
  bool named_;  // tokens have names
  // Rows of the sequences, a class token first; what a decoder has written before.
  Names first_, second_, written_;
};

// Names of the mechanisms that show what they weigh.
std::vector<std::string> mechanisms_with_maps();

}  // namespace longbow::predict
