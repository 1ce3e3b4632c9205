// A library that Python loads: there the functions are called without starting anything.
#include <prune_engine/prune_engine.h>
#include <tvm/ffi/container/array.h>

namespace ffi = tvm::ffi;

int64_t Version() { return prune_engine::AbiVersion(); }

// The description of the space of a module, generated, or of the traces and schedules that are given.
ffi::String Kept(ffi::ObjectRef module, ffi::String target, ffi::Optional<ffi::Array<ffi::ObjectRef>> traces) {
  ffi::Map<ffi::String, ffi::Any> source;
  source.Set("module", module);
  source.Set("target", target);
  if (traces.has_value()) source.Set("traces", *traces);
  return prune_engine::DescribeSpace(prune_engine::LoadSpace(source));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(version, Version);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(kept, Kept);
