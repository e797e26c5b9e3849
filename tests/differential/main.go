// Command hark-differential runs many of client-go's shared informers at once
// and tells every call of their handlers, so that hark-informer can be compared
// with them. Used by tests/src/differential, which starts one process for each
// of client-go's queues (see README.md) and talks to it in lines of JSON: a
// request on each line of standard input, a report on each line of standard
// output (see protocol.go).
//
// Invariant: what is reported is what client-go's handlers were given, in the
// order in which they were given it; nothing is left out, merged or corrected.
// It ends when standard input does.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// longestRequest bounds a line of standard input, in bytes.
const longestRequest = 1 << 20

func main() {
	// A scripted server makes informers fail all the time. Their log, and the
	// pause that comes with each logged error, would only slow the runs down.
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil

	reports := newReporter(os.Stdout)
	fleet := newFleet(reports)
	err := serve(os.Stdin, fleet, reports)
	fleet.stopAll() // before the reports end, for handlers still send
	if closing := reports.close(); err == nil {
		err = closing
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hark-differential:", err)
		os.Exit(1)
	}
}

// serve obeys requests until the input ends. What a request asks for may fail
// and is reported then; only a line that is no request is an error.
func serve(input io.Reader, fleet *fleet, reports *reporter) error {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, longestRequest)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
		if err := fleet.obey(asked); err != nil {
			reports.send(report{ID: asked.ID, Error: err.Error()})
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("standard input: %w", err)
	}
	return nil
}
