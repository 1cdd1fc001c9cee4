// Package imports holds the test that keeps the arrows between this project's
// packages pointing downward, and the clock and the network out of the packages
// that must not know of them. It has no code of its own.
package imports
