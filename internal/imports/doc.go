// Package imports holds the test of the import rules between this project's
// packages: imports point downward, and packages that must not use a clock or
// the network do not. It has no code of its own.
package imports
