// The subcommand `pki DIR URL`: everything that kube-apiserver at URL and its
// administrator need to trust each other. Used by tests/src/realserver.rs.
//
// Invariant: all of it is made fresh for one test's server, good for a day and
// for loopback only; nothing here is a secret worth keeping.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// The superuser's group: RBAC lets it do everything.
const adminGroup = "system:masters"

// pair is a certificate with its private key, parsed and as PEM.
type pair struct {
	cert            *x509.Certificate
	key             *ecdsa.PrivateKey
	certPEM, keyPEM []byte
}

func runPKI(_ options, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("got arguments %q: give the directory and the server's URL", args)
	}
	dir, url := args[0], args[1]
	ca, err := issue(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "hark-test-ca"},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}, nil)
	if err != nil {
		return err
	}
	server, err := issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}, ca)
	if err != nil {
		return err
	}
	admin, err := issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "hark-admin", Organization: []string{adminGroup}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca)
	if err != nil {
		return err
	}
	return write(dir, url, ca, server, admin)
}

// issue makes a key and a certificate for it, signed by ca, or by itself where
// ca is nil.
func issue(template *x509.Certificate, ca *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	if !template.IsCA {
		template.KeyUsage = x509.KeyUsageDigitalSignature
	}
	issuer := &pair{cert: template, key: key}
	if ca != nil {
		issuer = ca
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.cert, key.Public(), issuer.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &pair{
		cert:    cert,
		key:     key,
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

// write lays the files down. The service accounts' tokens are signed with a key
// of their own, whose public half the API server takes from the same file.
func write(dir, url string, ca, server, admin *pair) error {
	accounts, err := issue(&x509.Certificate{Subject: pkix.Name{CommonName: "service-accounts"}}, ca)
	if err != nil {
		return err
	}
	token := rand.Text()
	files := map[string][]byte{
		"ca.crt":     ca.certPEM,
		"server.crt": server.certPEM,
		"server.key": server.keyPEM,
		"sa.key":     accounts.keyPEM,
		"token":      []byte(token),
		"tokens.csv": fmt.Appendf(nil, "%s,hark-admin,hark-admin,%s\n", token, adminGroup),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return clientcmd.WriteToFile(kubeconfig(url, ca, admin), filepath.Join(dir, "kubeconfig"))
}

func kubeconfig(url string, ca, admin *pair) api.Config {
	const name = "hark-test"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: url, CertificateAuthorityData: ca.certPEM}
	config.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: admin.certPEM, ClientKeyData: admin.keyPEM}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	config.CurrentContext = name
	return *config
}
