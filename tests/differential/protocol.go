package main

import (
	"bufio"
	"encoding/json"
	"io"
)

// request is one line of standard input.
type request struct {
	// Do is start, listen, leave, cache or stop.
	Do string `json:"do"`
	// ID names an informer; the caller chooses it.
	ID string `json:"id"`
	// URL is the API server's, for start.
	URL string `json:"url"`
	// Resource is a plural name of the core group, v1, for start.
	Resource string `json:"resource"`
	// Selector is a label selector, for start; empty: all.
	Selector string `json:"selector"`
	// ResyncMillis is the period of the informer (start) or listener (listen),
	// in milliseconds; 0: never.
	ResyncMillis int64 `json:"resync_ms"`
	// Listener names a registration, for start, listen and leave.
	Listener string `json:"listener"`
}

// report is one line of standard output: a call of a handler (Op is set), the
// informer's cache (Cache), a listener's removal (Left), the informer's end (Stopped), or why a request failed (Error).
type report struct {
	ID       string `json:"id"`
	Listener string `json:"listener,omitempty"`

	// Op is add, update or delete.
	Op  string `json:"op,omitempty"`
	Key string `json:"key,omitempty"`
	UID string `json:"uid,omitempty"`
	RV  string `json:"rv,omitempty"`
	// OldUID and OldRV are the old state's, for update.
	OldUID string `json:"old_uid,omitempty"`
	OldRV  string `json:"old_rv,omitempty"`
	// Initial is OnAdd's isInInitialList.
	Initial bool `json:"initial,omitempty"`
	// Unknown says that OnDelete was given a DeletedFinalStateUnknown.
	Unknown bool `json:"unknown,omitempty"`

	Cache   map[string]state `json:"cache,omitzero"`
	Left    bool             `json:"left,omitempty"`
	Stopped bool             `json:"stopped,omitempty"`
	Error   string           `json:"error,omitempty"`
}

// state is what the cache holds of an object: enough to tell every two states
// of it that a script makes.
type state struct {
	UID  string `json:"uid"`
	RV   string `json:"rv"`
	Text string `json:"text"`
}

// reporter writes reports from many goroutines, whole lines at a time. It
// flushes when it has nothing more to write, so that the reader never waits.
type reporter struct {
	lines chan []byte
	done  chan error
}

func newReporter(out io.Writer) *reporter {
	r := &reporter{lines: make(chan []byte, 1024), done: make(chan error, 1)}
	go r.run(bufio.NewWriter(out))
	return r
}

func (r *reporter) run(out *bufio.Writer) {
	var failed error
	for line := range r.lines {
		if failed != nil {
			continue // nobody reads any more; senders must not block
		}
		if _, failed = out.Write(line); failed == nil && len(r.lines) == 0 {
			failed = out.Flush()
		}
	}
	if failed == nil {
		failed = out.Flush()
	}
	r.done <- failed
}

// send queues a report. Strings and flags always have a JSON form.
func (r *reporter) send(what report) {
	line, err := json.Marshal(what)
	if err != nil {
		line = []byte(`{"error":"a report has no JSON form"}`)
	}
	r.lines <- append(line, '\n')
}

// close ends the process's output; informers must have stopped.
func (r *reporter) close() error {
	close(r.lines)
	return <-r.done
}
