# Library, headers, program, the CMake package and the pkg-config file, all relocatable.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/longbow)

install(TARGETS longbow EXPORT longbow FILE_SET HEADERS)
if(TARGET longbow_program)
  install(TARGETS longbow_program)
endif()
install(EXPORT longbow NAMESPACE longbow:: FILE longbowTargets.cmake DESTINATION ${package_dir})

if(LONGBOW_INSTALL_TORCH)
  # The wheels' layout is kept, because libtorch_cpu.so looks for its neighbours at ../../nvidia.
  set(torch_destination ${CMAKE_INSTALL_LIBDIR}/longbow)
  set(package_torch_dir "\${PACKAGE_PREFIX_DIR}/${torch_destination}/torch")
  set(pkgconfig_torch_dir "\${prefix}/${torch_destination}/torch")
  install(DIRECTORY ${longbow_torch_dir}/include DESTINATION ${torch_destination}/torch)
  if(LONGBOW_CUDA)
    install(DIRECTORY ${longbow_torch_dir}/lib DESTINATION ${torch_destination}/torch)
    install(DIRECTORY ${longbow_torch_dir}/../nvidia DESTINATION ${torch_destination})
  else()
    install(DIRECTORY ${longbow_torch_dir}/lib DESTINATION ${torch_destination}/torch
      FILES_MATCHING REGEX "/lib(torch_cpu|c10|gomp)[.]so")
    install(DIRECTORY ${longbow_torch_dir}/../nvidia DESTINATION ${torch_destination}
      FILES_MATCHING REGEX "/lib(cupti|cudart)[.]so")
  endif()
else()
  set(package_torch_dir ${longbow_torch_dir})
  set(pkgconfig_torch_dir ${longbow_torch_dir})
endif()

configure_package_config_file(cmake/longbowConfig.cmake.in ${PROJECT_BINARY_DIR}/longbowConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/longbowConfigVersion.cmake COMPATIBILITY SameMajorVersion)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
  OUTPUT_VARIABLE prefix_from_pkgconfig)
configure_file(cmake/longbow.pc.in ${PROJECT_BINARY_DIR}/longbow.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/longbowConfig.cmake ${PROJECT_BINARY_DIR}/longbowConfigVersion.cmake
  cmake/LongbowTorchTarget.cmake DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/longbow.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
