// Package identity finds out who calls by what a caller shows besides a token of
// the cell: a certificate of TLS, or a JWT.
//
// Both come to a principal, user:NAME, and to the instant until which it counts.
// A certificate names its principal by its first URI, else its first DNS name,
// else its common name. A JWT does by one of its claims. Neither names the root.
//
// Of JWTs (RFC 7519) only those are taken that are signed, by RS256, ES256 or
// EdDSA, with the key that their kid names in a file of keys (JWKS, RFC 7517).
// Each key goes with one algorithm, that of its type: what a token says of its
// algorithm never chooses how the key is used. Keys that a token brings, or the
// address of some, are refused.
//
// The parsing and the signatures are those of go-jose. What is decided here is
// which keys and which tokens are taken at all.
package identity
