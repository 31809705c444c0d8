// What most tests of a layer that does not see LibTorch include.
#pragma once
#include <gtest/gtest.h>

#include "plain_pch.h"
