// Package fencesql has the tests of fence.SQL in SQLite, PostgreSQL and
// MariaDB. It has no code of its own: package fence needs no driver.
package fencesql
