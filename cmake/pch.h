// What nearly every file that touches a tensor includes anyway, and nothing else: for a file that
// includes torch/nn/module.h, this adds nothing, so that scripts/check-includes may pass over it.
#pragma once
#include <torch/nn/module.h>
