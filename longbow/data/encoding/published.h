#pragma once
// Files of published data sets, under the names that they are known by.
#include <optional>
#include <string>
#include <vector>

#include "longbow/core/fields.h"
#include "longbow/corpus/readers/splits.h"

namespace longbow {

// The path of `name` in the folder, or of one that is packed: name.xz, name.gz.
std::optional<std::string> find_packed_or_plain(const std::string& folder, const std::string& name);

// Whether the path is that of `name` in the folder, in any packing and however it is spelt.
bool is_packed_or_plain(const std::string& path, const std::string& folder,
                        const std::string& name);

// The first of these names that the folder has. Where it has none, a UserError says how to learn
// what the data set `set` needs.
std::string published_file(const std::string& set, const std::string& folder,
                           const std::vector<std::string>& names);

// Part of the training file chooses the weights, where the publisher keeps the test answers to
// itself and the validation file is scored instead.
struct HeldOut {
  double valid_fraction = 0.05;
  corpus::SplitOptions split() const {
    return {.valid_fraction = valid_fraction, .test_fraction = 0};
  }
};
template <class V>
void fields(V& v, HeldOut& c) {
  v("valid_fraction", c.valid_fraction,
    "of the training file, chosen by a hash of data.seed and the texts, for validation",
    range(0.001, 0.5));
}

}  // namespace longbow
