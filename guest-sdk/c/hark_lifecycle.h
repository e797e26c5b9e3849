/* For a plugin that is told when its instances begin and end, and keeps its memory over a reload: include this beside
 * hark.h, and write all five of `exports_hark_plugin_lifecycle_start`, `_stop`, `_save`, `_restore` and `_synced`
 * (lifecycle.h has their types, and what each is for). Invariant: as in hark.h, what is handed to the host through `ret`
 * or `err` is a copy, which the bindings free.
 *
 * A plugin that does not include this is linked without it, and has no such export. */
#ifndef HARK_LIFECYCLE_H
#define HARK_LIFECYCLE_H

#include "hark.h"
#include "lifecycle.h"

/* The generated names, without what all of them begin with. */
typedef exports_hark_plugin_lifecycle_start_reason_t hark_start_reason;
typedef exports_hark_plugin_lifecycle_stop_reason_t hark_stop_reason;
typedef exports_hark_plugin_lifecycle_saved_state_t hark_state;
typedef exports_hark_plugin_lifecycle_option_saved_state_t hark_saved;

/* What `save` returns: these bytes, in a layout that the author calls `format`; or nothing, since nothing is needed. */
bool hark_save(hark_saved *ret, const char *format, const void *data, size_t len);
bool hark_save_nothing(hark_saved *ret);

/* Whether a state is in this format. A plugin refuses to restore one that it does not know. */
bool hark_has_format(const hark_state *state, const char *format);

/* What `restore` returns once it is done. Frees the state. */
bool hark_restored(hark_state *state);

/* Lets `start` or `save` fail, and says why. For `restore`, free the state too: `hark_refuse_state`. */
bool hark_fail(lifecycle_string_t *err, const hark_line *why);
bool hark_refuse_state(hark_state *state, lifecycle_string_t *err, const hark_line *why);

#endif
