# The core without Python: sources and flags, shared by the extension and by the C++ tests.
set(SPARSAM_CSRC ${CMAKE_CURRENT_LIST_DIR})
set(SPARSAM_CORE_SOURCES
  ${SPARSAM_CSRC}/step/dispatch.cpp
  ${SPARSAM_CSRC}/step/record.cpp
  ${SPARSAM_CSRC}/index/memory_index.cpp
  ${SPARSAM_CSRC}/support/interrupt.cpp
  ${SPARSAM_CSRC}/support/parallel.cpp
  ${SPARSAM_CSRC}/step/sequence_baseline.cpp)
# -fno-math-errno and -fno-trapping-math change no result; they let square roots and selects become vector code.
set(SPARSAM_CORE_OPTIONS -O3 -Wall -Wextra -Wno-unknown-pragmas -Wno-psabi -ffp-contract=fast -fno-math-errno
  -fno-trapping-math)
set(SPARSAM_CORE_DEFINITIONS)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  list(APPEND SPARSAM_CORE_DEFINITIONS SPARSAM_X86)
  list(APPEND SPARSAM_CORE_SOURCES ${SPARSAM_CSRC}/step/sequence_avx2.cpp ${SPARSAM_CSRC}/step/sequence_avx512.cpp)
  set_source_files_properties(${SPARSAM_CSRC}/step/sequence_avx2.cpp PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma")
  set_source_files_properties(${SPARSAM_CSRC}/step/sequence_avx512.cpp PROPERTIES COMPILE_OPTIONS
    "-mavx512f;-mavx512dq;-mavx512vl;-mavx512bw;-mfma;-mprefer-vector-width=512")
  # Work on the core on a machine with AVX-512: the kernels that do not run there are compiled without optimisation.
  option(SPARSAM_QUICK_BUILD "Optimise the AVX-512 kernels only" OFF)
  if(SPARSAM_QUICK_BUILD)
    set_source_files_properties(${SPARSAM_CSRC}/step/sequence_baseline.cpp PROPERTIES COMPILE_OPTIONS "-O0")
    set_source_files_properties(${SPARSAM_CSRC}/step/sequence_avx2.cpp PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-O0")
    # First, since the linker keeps the first copy of a function that several files have.
    list(REMOVE_ITEM SPARSAM_CORE_SOURCES ${SPARSAM_CSRC}/step/sequence_avx512.cpp)
    list(PREPEND SPARSAM_CORE_SOURCES ${SPARSAM_CSRC}/step/sequence_avx512.cpp)
  endif()
endif()

# `make sanitize`. Less optimised, so that what is found can be told apart by line.
set(SPARSAM_SANITIZE "" CACHE STRING "Sanitizers: address (with undefined behaviour), thread, or none")
set(SPARSAM_SANITIZERS)
if(SPARSAM_SANITIZE STREQUAL "address")
  set(SPARSAM_SANITIZERS -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(SPARSAM_SANITIZE STREQUAL "thread")
  set(SPARSAM_SANITIZERS -fsanitize=thread)
elseif(SPARSAM_SANITIZE)
  message(FATAL_ERROR "SPARSAM_SANITIZE: expected address or thread, got ${SPARSAM_SANITIZE}")
endif()
if(SPARSAM_SANITIZERS)
  list(APPEND SPARSAM_CORE_OPTIONS -O1 -g1 -fno-omit-frame-pointer ${SPARSAM_SANITIZERS})
endif()
