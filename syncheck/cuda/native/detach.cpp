// Detaches tensors in C++ where torch would call the dispatch mode.
//
// When a backward pass unpacks a tensor that may be needed by a hook, c10 calls the interpreter of the current dispatch
// mode to detach it, which takes about 20 us, for an operator that uses no memory.
//
// Source: c10/core/TensorImpl.cpp, `shallow_copy_and_detach_core`.

#include "detach.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/PyInterpreter.h>

#include "forwarding.h"

namespace syncheck {
namespace {

class Detaching final : public Forwarding {
 public:
  using Forwarding::Forwarding;

  c10::intrusive_ptr<c10::TensorImpl> detach(const c10::TensorImpl* tensor) const override {
    if (!may_detach(tensor)) {
      return Forwarding::detach(tensor);
    }
    c10::impl::ExcludeDispatchKeyGuard without_mode(c10::DispatchKey::Python);
    return tensor->shallow_copy_and_detach(c10::VariableVersion(0), /*allow_tensor_metadata_change=*/false);
  }
};

}  // namespace

void take_detach() {
  c10::impl::PyInterpreter* interpreter = getPyInterpreter();
  static const auto* const detaching = new Detaching(interpreter->vtable_);  // never destroyed
  interpreter->vtable_ = detaching;
}

}  // namespace syncheck
