#pragma once
// State dicts of linformer-pytorch, read and written by its own names.
#include "longbow/models/linformer_pytorch/linformer.h"

namespace longbow {

// Where a tensor of a state dict stands: a part of a parameter or a buffer of ours. What is shared
// there stands under several names.
struct StatePart {
  std::string name;
  Tensor whole;
  std::function<Tensor(const Tensor&)> pick;  // the part of `whole`, or of its gradient
};

struct StateLayout {
  std::vector<StatePart> parts = {};
  std::vector<std::string> unused = {};  // may be there and says nothing: E and F of full attention
};
// The matrices of method no_params, which its state dict lacks, are wanted as heads.{h}.E and .F
// [input_size, dim_k] beside the other tensors of an attention.
StateLayout state_layout(const Linformer& net, const std::string& prefix = "");
StateLayout state_layout(const LinformerLM& net, const std::string& prefix = "");
StateLayout state_layout(const LinformerEncDec& net);

// Copies a state dict into the net. Names may all begin with "net.", as a Padder's do. UserError
// with a list of what is missing, unexpected or of another shape, when copies of a shared
// projection differ, and when positions have another base than 100000; the net is then as before.
void import_state(const StateLayout& layout, const Tensors& state, const std::string& file);
// The other way, with shared tensors under every name.
Tensors export_state(const StateLayout& layout);

}  // namespace longbow
