// Builds a Linformer layer by name and runs it on two sequences.
#include <ATen/Functions.h>

#include <iostream>

#include "longbow/attention/mechanism.h"

int main() {
  const longbow::Site site = {.shape = {.width = 32, .heads = 4, .max_length = 64}};
  const auto mixer = longbow::make_mixer("linformer", site, "{rank: 8}");

  longbow::Context context;
  const auto tokens = at::ones({2, 16, 32});
  const auto mixed = (*mixer)(tokens, context);
  std::cout << mixer->name() << ": " << mixed.sizes() << ", first value "
            << mixed[0][0][0].item<float>() << "\n";
}
