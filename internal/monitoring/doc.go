// Package monitoring holds the tests of what there is for Prometheus and Grafana
// in configs: the alerts and the dashboard. It has no code of its own. It is a
// module of its own: Prometheus is to choose no version of what the programs are
// built from.
package monitoring
