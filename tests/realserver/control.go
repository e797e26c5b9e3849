// The line between a supervised server and the test that started it. Used by
// etcd.go and apiserver.go.
//
// Invariant: a supervised server does not outlive its parent. The parent holds
// the write end of the server's standard input; however the parent ends, the
// pipe closes and the server exits at once. Standard output carries nothing but
// answers, a line each; logs go to standard error.
package main

import (
	"bufio"
	"fmt"
	"os"
)

// obey runs the command that each line of standard input names and prints its
// answer. At the end of the input it ends the process.
func obey(commands map[string]func() (string, error)) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		command, found := commands[lines.Text()]
		if !found {
			answer(fmt.Sprintf("error unknown command %q", lines.Text()))
			continue
		}
		said, err := command()
		if err != nil {
			said = fmt.Sprintf("error %q: %v", lines.Text(), err)
		}
		answer(said)
	}
	os.Exit(0)
}

func answer(line string) {
	fmt.Println(line)
}
