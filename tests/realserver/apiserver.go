// The subcommand `kube-apiserver FLAG ...`: upstream's command with its own
// flags. Used by tests/src/realserver.rs.
//
// Invariant: `ready` is said only when a test may begin: /readyz is 200 for the
// administrator and the namespaces that every cluster has exist.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func runAPIServer(opts options, args []string) error {
	if opts.supervised {
		admin, err := clientcmd.BuildConfigFromFlags("", opts.kubeconfig)
		if err != nil {
			return fmt.Errorf("reading -kubeconfig %q: %w", opts.kubeconfig, err)
		}
		// Start-up makes much garbage and is what tests wait for.
		debug.SetGCPercent(400)
		go obey(map[string]func() (string, error){"terminate": terminate})
		go announceReady(admin)
	}
	command := app.NewAPIServerCommand()
	command.SetArgs(args)
	os.Exit(cli.Run(command))
	return nil
}

// terminate asks for the graceful end that a rolling update gives a server.
func terminate() (string, error) {
	return "terminating", syscall.Kill(os.Getpid(), syscall.SIGTERM)
}

// announceReady says `ready` once everything that a test counts on answers. It
// has no deadline of its own: the parent has one, and the process ends with it.
func announceReady(admin *rest.Config) {
	client, err := rest.HTTPClientFor(admin)
	if err != nil {
		fail(fmt.Errorf("making a client for %s: %w", admin.Host, err))
	}
	client.Timeout = 2 * time.Second
	for _, path := range []string{
		"/readyz",
		"/api/v1/namespaces/kube-system",
		"/api/v1/namespaces/default",
	} {
		for !answersOK(client, admin.Host+path) {
			time.Sleep(20 * time.Millisecond)
		}
	}
	debug.SetGCPercent(100)
	answer("ready " + admin.Host)
}

func answersOK(client *http.Client, url string) bool {
	response, err := client.Get(url)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK
}
