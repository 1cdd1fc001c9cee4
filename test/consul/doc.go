// Package consul tests the door for Consul's clients, `stoutd
// --consul-listen`, by programs and tests of other authors: the tests of
// Consul's client library for Go, the command consul, Patroni with PostgreSQL,
// consul-template, the Consul storage of Vault, and the key-value provider of
// Traefik. The package has tests only, and no code of the product.
//
// Each of these is built from a copy of the release named in releases_test.go,
// with that module's own go.mod. So this module requires none of them. The releases of
// Consul and Vault are the last ones under the Mozilla Public License.
//
// With STOUT_TEST_CONSUL=1, or the path of a consul, the tests use a real Consul
// in the place of stoutd. That shows whether a test which fails with the door is
// right.
//
//	make consul
//	STOUT_TEST_CONSUL=1 make consul
package consul
