// What nearly every file of ops includes anyway, and nothing else: for a file that includes both,
// this adds nothing, so that scripts/check-includes may pass over it.
#pragma once
#include <ATen/ATen.h>
#include <torch/library.h>
