// Package watch looks at the replicas of a run of chaos from outside: the sums
// of their states, their logs, and how long nobody was served.
package watch
