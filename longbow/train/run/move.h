#pragma once
// Weights of one model put into another, by name.
#include <string>
#include <vector>

#include "longbow/nn/contract/context.h"

namespace longbow {

struct Moving {
  std::string source = "";  // whose tensors they are, for messages
  bool everything = false;  // or the encoder alone
  bool tile = false;        // learned positions behind the stored ones repeat them
};

// What a training takes over: nothing when there are no weights.
struct Inheritance {
  Tensors weights = {};
  Moving how = {};
};

// What became of the tensors, by name.
struct Moved {
  std::string source = {};
  std::vector<std::string> moved = {}, cut = {}, grown = {}, tiled = {}, left = {}, anew = {};
  std::string text() const;
};
// Tensors of `from` replace those of the same name and shape in `to`. Words, positions and segments
// may have more rows than wanted, and are cut, or fewer: the other rows stay as they are. UserError
// when nothing of the encoder fits.
Moved move_weights(const Tensors& from, Tensors& to, const Moving& how);

}  // namespace longbow
