# Small libraries, each private to the .cpp files that use it.
find_package(Threads REQUIRED)
# LibTorch ships headers of another fmt; the header-only form lets each file use the one it sees.
find_package(fmt REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
if(LONGBOW_TESTS)
  find_package(GTest REQUIRED)
endif()
