package config

import "strings"

// What the API asks of its clients' certificates.
const (
	ClientAuthNone     = "none"     // they are not asked for any
	ClientAuthOptional = "optional" // one that is shown must be good
	ClientAuthRequired = "required" // one must be shown
)

// Names of the settings for TLS.
const (
	nameAPICert       = "api-cert"
	nameAPIKey        = "api-key"
	nameAPIClientCA   = "api-client-ca"
	nameAPIClientAuth = "api-client-auth"
	nameRaftCert      = "raft-cert"
	nameRaftKey       = "raft-key"
	nameRaftCA        = "raft-ca"
)

func tlsSettings() []setting {
	return []setting{
		text(nameAPICert, "file", "certificate of the API, with those behind it (PEM): it speaks https then, and no http", func(c *Config) *string { return &c.APICert }),
		text(nameAPIKey, "file", "its private key (PEM)", func(c *Config) *string { return &c.APIKey }),
		text(nameAPIClientCA, "file", "CAs that sign the certificates of the API's clients (PEM)", func(c *Config) *string { return &c.APIClientCA }),
		text(nameAPIClientAuth, "policy", "certificates of clients: none, optional or required; unless given, optional with api-client-ca", func(c *Config) *string { return &c.APIClientAuth }),
		text(nameRaftCert, "file", "certificate of this replica for the others, with the URI stout://replica/ID (PEM)", func(c *Config) *string { return &c.RaftCert }),
		text(nameRaftKey, "file", "its private key (PEM)", func(c *Config) *string { return &c.RaftKey }),
		text(nameRaftCA, "file", "CAs that sign the certificates of the replicas (PEM)", func(c *Config) *string { return &c.RaftCA }),
	}
}

// APISecure reports whether the API speaks TLS.
func (c *Config) APISecure() bool { return c.APICert != "" }

// RaftSecure reports whether replicas speak TLS to one another.
func (c *Config) RaftSecure() bool { return c.RaftCert != "" }

// scheme is that of the API's URLs.
func (c *Config) scheme() string {
	if c.APISecure() {
		return "https"
	}
	return "http"
}

func (v *validator) tls() {
	c := v.config
	v.together([]file{{nameAPICert, c.APICert}, {nameAPIKey, c.APIKey}}, "a certificate needs its key")
	v.together([]file{{nameRaftCert, c.RaftCert}, {nameRaftKey, c.RaftKey}, {nameRaftCA, c.RaftCA}},
		"between replicas both ends show a certificate, and judge the other's by a CA")
	v.choice(nameAPIClientAuth, c.APIClientAuth, ClientAuthNone, ClientAuthOptional, ClientAuthRequired)
	switch {
	case c.APIClientCA == "":
		if c.APIClientAuth == ClientAuthOptional || c.APIClientAuth == ClientAuthRequired {
			v.refuse(nameAPIClientAuth, c.APIClientAuth, "it needs api-client-ca: the CAs that the certificates are judged by")
		}
	case !c.APISecure():
		v.refuse(nameAPIClientCA, c.APIClientCA, "clients show certificates over TLS only; give api-cert and api-key as well")
	case !c.RaftSecure():
		v.refuse(nameAPIClientCA, c.APIClientCA,
			"calls that one replica forwards to another say who calls: without TLS between replicas anybody could; give raft-cert, raft-key and raft-ca as well")
	}
	if self := c.Self(); c.APISecure() && !c.Dev && strings.HasPrefix(self.APIURL, "http://") {
		v.refuse(nameReplica, formatReplica(self), "the API speaks https where api-cert is given, and no http: its URL begins with https://")
	}
}

// file is a setting that names one.
type file struct{ name, value string }

// together refuses some of the files where others are missing.
func (v *validator) together(files []file, why string) {
	var given, missing []string
	for _, f := range files {
		if f.value == "" {
			missing = append(missing, f.name)
		} else {
			given = append(given, f.name)
		}
	}
	if len(given) == 0 || len(missing) == 0 {
		return
	}
	for _, f := range files {
		if f.value != "" {
			v.refuse(f.name, f.value, "give %s as well: %s", strings.Join(missing, " and "), why)
			return
		}
	}
}
