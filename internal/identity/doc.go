// Package identity identifies callers by credentials other than the cell's
// tokens: a TLS certificate, or a JWT.
//
// Both give a principal, user:NAME, and the time until which the proof is
// valid. A certificate names its principal by its first URI, else its first DNS
// name, else its common name. A JWT names it by one of its claims. Neither can
// name root.
//
// A JWT (RFC 7519) must be signed, by RS256, ES256 or EdDSA, with the key in a
// key file (JWKS, RFC 7517) that its kid names. Each key is used with the one
// algorithm of its type. The alg of a token never selects how a key is used.
// Tokens that bring keys, or the address of keys, are refused.
//
// Package go-jose does the parsing and verifies signatures. This package
// decides which keys and tokens are accepted at all.
package identity
