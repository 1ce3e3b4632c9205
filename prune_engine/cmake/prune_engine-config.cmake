# The engine from C++: prune_engine::prune_engine calls it in a process that runs Python already,
# prune_engine::embed starts Python (prune_engine/start.h). Both bring tvm-ffi.
#
#   cmake -B build -Dprune_engine_DIR=$(python -m prune_engine.ffi --cmakedir) -DPython_EXECUTABLE=$(which python)
include(CMakeFindDependencyMacro)

if(NOT TARGET prune_engine::prune_engine)
  # The environment's own tvm-ffi: the program and Python must load the same library.
  find_package(Python COMPONENTS Interpreter OPTIONAL_COMPONENTS Development.Embed)
  if(NOT Python_Interpreter_FOUND)
    set(prune_engine_FOUND FALSE)
    set(prune_engine_NOT_FOUND_MESSAGE "Name the Python in which prune-engine is installed: -DPython_EXECUTABLE=...")
    return()
  endif()
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -m tvm_ffi.config --cmakedir
    OUTPUT_VARIABLE _prune_engine_tvm_ffi OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE _prune_engine_failed)
  if(_prune_engine_failed)
    set(prune_engine_FOUND FALSE)
    set(prune_engine_NOT_FOUND_MESSAGE "${Python_EXECUTABLE} has no tvm-ffi: name the Python in which prune-engine is installed, -DPython_EXECUTABLE=...")
    return()
  endif()
  find_dependency(tvm_ffi CONFIG PATHS "${_prune_engine_tvm_ffi}" NO_DEFAULT_PATH)

  add_library(prune_engine::prune_engine INTERFACE IMPORTED)
  set_target_properties(prune_engine::prune_engine PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/../include"
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_LINK_LIBRARIES "tvm_ffi::header;tvm_ffi::shared")

  # Only where Python's headers and its shared library are installed.
  if(TARGET Python::Python)
    add_library(prune_engine::embed INTERFACE IMPORTED)
    set_target_properties(prune_engine::embed PROPERTIES
      INTERFACE_LINK_LIBRARIES "prune_engine::prune_engine;Python::Python")
  endif()
  unset(_prune_engine_tvm_ffi)
  unset(_prune_engine_failed)
endif()
