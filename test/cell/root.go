package cell

import (
	"cmp"
	"net/http"
	"os"
	"strings"
)

// authorize makes the harness send the root token in its calls.
func (c *Cell) authorize() error {
	secret, err := os.ReadFile(c.opts.RootToken)
	if err != nil {
		return err
	}
	for _, r := range c.replicas {
		plain := cmp.Or(r.via, httpClient)
		r.via = &http.Client{Transport: bearer{"Bearer " + strings.TrimSpace(string(secret)), plain.Transport}}
	}
	return nil
}

type bearer struct {
	credential string
	via        http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", b.credential)
	return b.via.RoundTrip(r)
}

// accessFlags returns the flags for access control and audit.
func (c *Cell) accessFlags(r *Replica) (flags []string) {
	if c.opts.RootToken != "" {
		flags = append(flags, "--found-token-file", c.opts.RootToken)
	}
	if c.opts.Audit {
		flags = append(flags, "--audit-log", r.AuditLog(), "--audit-changes")
	}
	return flags
}
