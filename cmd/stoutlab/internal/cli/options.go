package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
)

// options adds the flags of a run.
func options(cmd *cobra.Command) *lab.Options {
	o := &lab.Options{}
	cmd.Flags().IntVarP(&o.N, "n", "n", 0, "number of processes, with ids 0 … N−1; the id is the attribute (default 5, maekawa 6)")
	settings(cmd, o)
	return o
}

// settings adds the flags of a run except its size.
func settings(cmd *cobra.Command, o *lab.Options) {
	f := cmd.Flags()
	f.StringVar(&o.Initiators, "initiators", "", "processes that begin: ids such as 0,3, or all (default: as in the book)")
	f.StringVar(&o.Order, "order", "", "ids around the ring, in the direction of messages: best, worst, random, or 0,3,1,2 (best: the process to be elected begins, unless --initiators is given; hs: worst is only a bad order)")
	f.StringVar(&o.Entries, "entries", "", "mutual exclusion: entries of each process, 2 or 0:1,1:1 (default 1 each; maekawa: one process, or the deadlock with -n 6)")
	network(f, o)
	faults(f, o)
	f.IntVar(&o.Lease, "lease", 0, "chubby: length of a lease, in units (default 20 bounds)")
	f.Float64Var(&o.Drift, "drift", 0.01, "chubby: the bound on clock drift that the processes assume")
	f.BoolVar(&o.FromReply, "lease-from-reply", false, "chubby: count the lease from the reply, which is wrong")
	f.SortFlags = false
}

func network(f *pflag.FlagSet, o *lab.Options) {
	f.Uint64Var(&o.Seed, "seed", 0, "seed of everything random")
	f.StringVar(&o.Latency, "latency", "1", "latency of messages, in units: 1, or a range such as 1..5")
	f.IntVar(&o.Bound, "bound", 0, "the bound that time-outs are computed from (default: the largest latency)")
	f.Float64Var(&o.Loss, "loss", 0, "fraction of messages that are lost")
	f.Float64Var(&o.Duplicate, "duplicate", 0, "fraction of messages that arrive twice")
	f.BoolVar(&o.Reorder, "reorder", false, "let messages of a link overtake one another")
	f.StringVar(&o.Rates, "rates", "", "clock rates of processes 0, 1, …: 1,1.5,0.9 (default 1)")
}

func faults(f *pflag.FlagSet, o *lab.Options) {
	f.StringArrayVar(&o.Crash, "crash", nil,
		"crash process ID at EVENT: start, KIND (before its first such message), after-KIND (just after it, even within a multicast); #K appended means the Kth; repeatable")
	f.StringArrayVar(&o.Cut, "cut", nil, "like --crash, but cut the process off from the network")
	f.StringArrayVar(&o.Reboot, "reboot", nil, "like --crash, but restart the process after two bounds, if the algorithm can")
	f.StringVar(&o.Detector, "detector", "", "failure detector: none, perfect, incomplete or inaccurate (default: none, but perfect for services)")
}
