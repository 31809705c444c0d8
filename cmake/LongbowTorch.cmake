# The target longbow_torch. Order: LONGBOW_TORCH (cache or environment), the folder that scripts/setup fills,
# an importable torch.
include(LongbowTorchTarget)
longbow_find_torch(longbow_torch_dir "${LONGBOW_TORCH}" "$ENV{LONGBOW_TORCH}" "${PROJECT_SOURCE_DIR}/.deps/torch/torch")
longbow_check_torch("${longbow_torch_dir}" "run scripts/setup or set LONGBOW_TORCH to its folder")
if(LONGBOW_CUDA)
  find_package(CUDAToolkit REQUIRED)
endif()
add_library(longbow_torch INTERFACE)
longbow_describe_torch(longbow_torch "${longbow_torch_dir}" ${LONGBOW_CUDA})
set(CMAKE_BUILD_RPATH ${longbow_torch_dir}/lib)

# An installed longbow must outlive this source tree, so a LibTorch that lives inside it is installed too.
cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${longbow_torch_dir}" NORMALIZE torch_is_ours)
option(LONGBOW_INSTALL_TORCH "Install LibTorch below <prefix>/lib/longbow" ${torch_is_ours})
if(LONGBOW_INSTALL_TORCH)
  set(installed_torch_rpath "$ORIGIN/longbow/torch/lib;$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/longbow/torch/lib")
else()
  set(installed_torch_rpath ${longbow_torch_dir}/lib)
endif()
set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${installed_torch_rpath}")
