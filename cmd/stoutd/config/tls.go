package config

import (
	"slices"
	"strings"
)

// Policies for the certificates of the API's clients.
const (
	ClientAuthNone     = "none"     // the API requests no certificate
	ClientAuthOptional = "optional" // a certificate, if shown, must be valid
	ClientAuthRequired = "required" // a valid certificate must be shown
)

// APISecure reports whether the API speaks TLS.
func (c *Config) APISecure() bool { return c.APICert != "" }

// RaftSecure reports whether replicas speak TLS to each other.
func (c *Config) RaftSecure() bool { return c.RaftCert != "" }

func (c *Config) scheme() string {
	if c.APISecure() {
		return "https"
	}
	return "http"
}

func (v *validator) tls() {
	c := v.config
	v.together("a certificate needs its key", &c.APICert, &c.APIKey)
	v.together("between replicas both ends show a certificate, and verify the other's by a CA", &c.RaftCert, &c.RaftKey, &c.RaftCA)
	switch {
	case c.APIClientCA == "":
		if c.APIClientAuth == ClientAuthOptional || c.APIClientAuth == ClientAuthRequired {
			v.refuse(&c.APIClientAuth, "it needs %s: the CAs that sign the clients' certificates", c.name(&c.APIClientCA))
		}
	case !c.APISecure():
		v.refuse(&c.APIClientCA, "clients show certificates over TLS only; give %s and %s as well", c.name(&c.APICert), c.name(&c.APIKey))
	case !c.RaftSecure():
		v.refuse(&c.APIClientCA, "a replica that forwards a call reports its caller: without TLS between replicas any program could do so; give %s, %s and %s as well",
			c.name(&c.RaftCert), c.name(&c.RaftKey), c.name(&c.RaftCA))
	}
	if self := c.Self(); c.APISecure() && !c.Dev && strings.HasPrefix(self.APIURL, "http://") {
		v.refuseValue(&c.Replicas, formatReplica(self), "with %s the API speaks https only: its URL begins with https://", c.name(&c.APICert))
	}
}

// together refuses some of the fields if others have no value.
func (v *validator) together(why string, fields ...*string) {
	var missing []string
	for _, f := range fields {
		if *f == "" {
			missing = append(missing, v.config.name(f))
		}
	}
	if len(missing) == 0 || len(missing) == len(fields) {
		return
	}
	first := slices.IndexFunc(fields, func(f *string) bool { return *f != "" })
	v.refuse(fields[first], "give %s as well: %s", strings.Join(missing, " and "), why)
}
