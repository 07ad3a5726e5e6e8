// What torch's GPU trace reports, and who receives it.

#pragma once

#include <cstdint>

namespace syncheck {

// Kinds of callbacks; same as `Kind` in callback_order.py.
enum class CallbackKind { RECORD = 1, WAIT, SYNC_STREAM, SYNC_EVENT, SYNC_DEVICE };

// Take a callback; return false if Python has to handle it. Handles are 0 where a kind has none. In recorder.cpp.
bool take_callback(CallbackKind kind, uintptr_t event, uintptr_t stream);

// Return whether the calling thread runs a collective whose callbacks are taken. In recorder.cpp.
bool is_in_collective();

// Forward the deletions of events that occurred in this thread during a collective, whose callbacks name the events.
void forward_deletions();

// Suppress torch's calls into Python for allocations, frees, and new events and streams, or restore them.
void mute_trace(bool value);

// Return whether the trace is enabled, and its callbacks are offered to `take_callback`.
bool is_trace_taken();

}  // namespace syncheck
