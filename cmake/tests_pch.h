// What nearly every test of a layer that sees LibTorch includes anyway.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "pch.h"
