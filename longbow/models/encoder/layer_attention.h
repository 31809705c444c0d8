#pragma once
#include <vector>

#include "longbow/attention/mechanism.h"

namespace longbow {

// The options of each layer. `{name: local, window: 64, per_layer: {window: [32, 64]}}` gives every
// layer its own; a list `[{name: fnet, layers: 0-9}, {name: softmax, layers: 10-11}]` gives ranges
// theirs; a list without `layers` has one mechanism for each layer, `[local, local, linformer]`.
std::vector<Node> attention_per_layer(const Node& attention, int64_t layers);

// The same with every option of every mechanism spelled out, so that a later default cannot change
// a run.
Node resolved_attention(const Node& attention);

// OptionError at a layer's options that do not go together, not with those of another layer that
// shares tensors with it, or not with the site, of which the layers are.
void check_layer_options(const Node& attention, const Site& site);

// UserError at the layer's options when a mechanism cannot write a text token by token.
void check_decodes(const Node& attention, int64_t layers);

}  // namespace longbow
