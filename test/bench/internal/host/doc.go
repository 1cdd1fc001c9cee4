// Package host is the cell under load: one of three processes that it starts on
// loopback, or a given one; and what its processes cost.
package host
