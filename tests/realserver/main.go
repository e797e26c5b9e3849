// Command hark-realserver is the real thing that Hark's tests run against: the
// released kube-apiserver, a one-member etcd, kubectl and a maker of throw-away
// certificates in one binary, so that a test needs nothing installed but Go to
// build it once. Used by tests/src/realserver.rs only.
//
//	hark-realserver [-supervised] [-kubeconfig FILE] SUBCOMMAND [ARGUMENT ...]
//
// Invariant: what runs behind each subcommand is upstream's code, unpatched;
// this module only starts it, says when it serves and ends it.
package main

import (
	"flag"
	"fmt"
	"os"
)

// options are the flags that stand before the subcommand.
type options struct {
	supervised bool   // obey standard input, see control.go
	kubeconfig string // how kube-apiserver asks itself whether it is ready
}

var subcommands = map[string]func(options, []string) error{
	"etcd":           runEtcd,
	"kube-apiserver": runAPIServer,
	"kubectl":        runKubectl,
	"pki":            runPKI,
}

func main() {
	var opts options
	flags := flag.NewFlagSet("hark-realserver", flag.ExitOnError)
	flags.BoolVar(&opts.supervised, "supervised", false, "print `ready` when serving, take commands from standard input, exit at its end")
	flags.StringVar(&opts.kubeconfig, "kubeconfig", "", "with -supervised kube-apiserver: the file to reach it with")
	flags.Parse(os.Args[1:])

	run, found := subcommands[flags.Arg(0)]
	if !found {
		fail(fmt.Errorf("unknown subcommand %q: use etcd, kube-apiserver, kubectl or pki", flags.Arg(0)))
	}
	if err := run(opts, flags.Args()[1:]); err != nil {
		fail(fmt.Errorf("%s: %w", flags.Arg(0), err))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "hark-realserver:", err)
	os.Exit(1)
}
