package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoutlock/stout/master"
)

// quotaUses shows how far each quota is used up, by the name of its setting.
type quotaUses func() []master.QuotaUse

var (
	quotaMaxDesc = prometheus.NewDesc("stout_quota_max",
		"The quota of this replica, which counts while it is master; 0 is none.", []string{"quota"}, nil)
	quotaUsedDesc = prometheus.NewDesc("stout_quota_used",
		"What there is of what the quota bounds, on the master, for quotas of the whole cell.", []string{"quota"}, nil)
	quotaRefusedDesc = prometheus.NewDesc("stout_quota_refused_total",
		"Calls that this replica refused as master because the quota was used up.", []string{"quota"}, nil)
)

func (quotaUses) Describe(to chan<- *prometheus.Desc) {
	to <- quotaMaxDesc
	to <- quotaUsedDesc
	to <- quotaRefusedDesc
}

func (q quotaUses) Collect(to chan<- prometheus.Metric) {
	for _, u := range q() {
		to <- prometheus.MustNewConstMetric(quotaMaxDesc, prometheus.GaugeValue, float64(u.Max), u.Name)
		to <- prometheus.MustNewConstMetric(quotaRefusedDesc, prometheus.CounterValue, float64(u.Refused), u.Name)
		if u.Known {
			to <- prometheus.MustNewConstMetric(quotaUsedDesc, prometheus.GaugeValue, float64(u.Used), u.Name)
		}
	}
}
