// Package monitoring holds the tests of the alerts and the dashboard in
// configs, for Prometheus and Grafana. It has no code of its own. It is a
// separate module, so that Prometheus does not affect the versions that the
// programs are built from.
package monitoring
