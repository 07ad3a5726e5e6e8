// Detaching tensors without calling the dispatch mode.

#pragma once

#include <c10/core/TensorImpl.h>

namespace syncheck {

// Return whether a tensor may be detached without the mode, which ignores the operator. In recorder.cpp.
bool may_detach(const c10::TensorImpl* tensor);

// Let `may_detach` decide, from now on, about the tensors that autograd detaches.
void take_detach();

}  // namespace syncheck
