// Package watch observes the replicas of a run of chaos from outside: their
// state sums, their logs, and the gaps in their service.
package watch
