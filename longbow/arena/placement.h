#pragma once
// Where the mechanism of an arena's cell goes in a model that has several places for one.
#include <string>
#include <vector>

#include "longbow/core/config.h"

namespace longbow::arena {

struct Placement {
  Node model;                      // the model part of a run config, with the mechanism in it
  std::vector<std::string> sites;  // the places it took; empty where there is only one
};

// UserError when a layer of the model cannot read the options.
void check_readable(const Node& attention, const Node& model, const std::string& objective);

// Every place where the mechanism keeps what the place needs: in an encoder-decoder the encoder
// needs both directions, the decoder a causal form that decodes, cross-attention one that decodes
// from a memory. The other places stay as `model` has them. A generator has the mechanism of its
// model unless it names its own; of a model of characters only the deep stack takes it. UserError
// when its options are wrong, or when there is no place for it.
Placement placed(const Node& attention, const Node& model, const std::string& objective);

}  // namespace longbow::arena
