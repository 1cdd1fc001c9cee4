package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
)

// options adds the flags of a run.
func options(cmd *cobra.Command) *lab.Options {
	o := &lab.Options{}
	cmd.Flags().IntVarP(&o.N, "n", "n", 0, "number of processes, 0 … N−1; the id is the attribute (default 5, maekawa 6)")
	settings(cmd, o)
	return o
}

// settings adds the flags of a run but for its size.
func settings(cmd *cobra.Command, o *lab.Options) {
	f := cmd.Flags()
	f.StringVar(&o.Initiators, "initiators", "", "who begins: ids such as 0,3, or all (default: as the book has it)")
	f.StringVar(&o.Order, "order", "", "ids around the ring, in the direction of messages: best, worst, random, or 0,3,1,2 (best: who is to be elected begins, unless --initiators; hs: worst is a bad one)")
	f.StringVar(&o.Entries, "entries", "", "mutual exclusion: how often each enters, 2 or 0:1,1:1 (default 1 each; maekawa one process, with -n 6 the deadlock)")
	network(f, o)
	faults(f, o)
	f.IntVar(&o.Trace, "trace", 0, "with -o json: as many events of the run, with Lamport clocks")
	f.IntVar(&o.Lease, "lease", 0, "chubby: the length of a lease in units (default 20 bounds)")
	f.Float64Var(&o.Drift, "drift", 0.01, "chubby: the bound on clocks that the processes count on")
	f.BoolVar(&o.FromReply, "lease-from-reply", false, "chubby: count the lease from the reply, which is wrong")
	f.SortFlags = false
}

func network(f *pflag.FlagSet, o *lab.Options) {
	f.Uint64Var(&o.Seed, "seed", 0, "decides all that is random")
	f.StringVar(&o.Latency, "latency", "1", "of messages, in units: 1, or 1..5 for any of these")
	f.IntVar(&o.Bound, "bound", 0, "what time-outs are made of (default: the largest latency)")
	f.Float64Var(&o.Loss, "loss", 0, "the part of messages that is lost")
	f.Float64Var(&o.Duplicate, "duplicate", 0, "the part of messages that arrives twice")
	f.BoolVar(&o.Reorder, "reorder", false, "messages of a link may overtake one another")
	f.StringVar(&o.Rates, "rates", "", "rates of the clocks of 0, 1, …: 1,1.5,0.9 (default 1)")
}

func faults(f *pflag.FlagSet, o *lab.Options) {
	f.StringArrayVar(&o.Crash, "crash", nil,
		"ID@EVENT: start, KIND (before its first such message), after-KIND (just after it, in the midst of a multicast), or with #K its Kth; repeatable")
	f.StringArrayVar(&o.Cut, "cut", nil, "as --crash: the process is cut off from the network")
	f.StringArrayVar(&o.Reboot, "reboot", nil, "as --crash: the process comes back after two bounds, if it can")
	f.StringVar(&o.Detector, "detector", "", "of failures: none, perfect, incomplete or inaccurate (default none; services have a perfect one)")
}
