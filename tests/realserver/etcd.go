// The subcommand `etcd DATA_DIR`: one etcd member on loopback ports of its own
// choosing, without fsync. Used by tests/src/realserver.rs as the store behind
// kube-apiserver.
//
// Invariant: nothing listens outside of loopback, and no other process can take
// the ports in between, since the kernel gives them to etcd itself.
package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
)

func runEtcd(opts options, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("got arguments %q: give the data directory and nothing else", args)
	}
	server, err := embed.StartEtcd(etcdConfig(args[0]))
	if err != nil {
		return err
	}
	if opts.supervised {
		go obey(map[string]func() (string, error){
			"compact": func() (string, error) { return compact(server) },
		})
		go func() {
			<-server.Server.ReadyNotify()
			answer("ready http://" + server.Clients[0].Addr().String())
		}()
	}
	return <-server.Err()
}

// etcdConfig is a member alone in its cluster: the short election time is safe,
// since there is nobody to lose an election to.
func etcdConfig(dir string) *embed.Config {
	anyPort := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.UnsafeNoFsync = true
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = anyPort, anyPort
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = anyPort, anyPort
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.EnableGRPCGateway = false
	cfg.LogOutputs = []string{"stderr"}
	return cfg
}

// compact forgets every revision before the present one, as kube-apiserver itself
// has etcd do every five minutes: it first leaves the revision under the key that
// API servers watch, so that they give up the older snapshots in their caches.
func compact(server *embed.Etcd) (string, error) {
	revision := server.Server.KV().Rev()
	note := &pb.PutRequest{Key: []byte("compact_rev_key"), Value: strconv.AppendInt(nil, revision, 10)}
	if _, err := server.Server.Put(context.Background(), note); err != nil {
		return "", err
	}
	request := &pb.CompactionRequest{Revision: revision, Physical: true}
	if _, err := server.Server.Compact(context.Background(), request); err != nil {
		return "", err
	}
	return fmt.Sprintf("compacted %d", revision), nil
}
