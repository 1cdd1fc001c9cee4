// Package report shows what was measured: as a table for people, as JSON for
// programs, and as a plot.
package report
