package setup

import (
	"fmt"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/internal/certs"
)

// RaftCertificates reads the certificates for the connections between replicas; nil
// if these do not use TLS.
func RaftCertificates(c *config.Config) (*certs.Source, error) {
	if !c.RaftSecure() {
		return nil, nil
	}
	s, err := certs.Open(certs.Files{Cert: c.RaftCert, Key: c.RaftKey, CA: c.RaftCA}, certs.OfReplica(c.ID))
	if err != nil {
		return nil, fmt.Errorf("raft-cert %q (%s): %w", c.RaftCert, c.Source("raft-cert"), err)
	}
	return s, nil
}
