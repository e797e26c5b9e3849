// The subcommand `kubectl ARGUMENT ...`: upstream's kubectl, of the API server's
// version. Used by tests/src/realserver.rs, so that tests do not depend on what
// the machine has installed.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func runKubectl(_ options, args []string) error {
	// kubectl reads os.Args itself, for its plugins and its preferences.
	os.Args = append([]string{"kubectl"}, args...)
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
	return nil
}
