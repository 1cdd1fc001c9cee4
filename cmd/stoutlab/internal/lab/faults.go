package lab

import (
	"slices"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
)

// readFaults reads the faults of processes: "ID@start", "ID@KIND" for just
// before the process first sends such a message, "ID@after-KIND" for just
// after, and "…#K" for the Kth time instead of the first.
func readFaults(p *Plan) error {
	o := p.Options
	for _, list := range []struct {
		flag  string
		texts []string
		harm  sim.Harm
	}{{"crash", o.Crash, sim.Crash}, {"cut", o.Cut, sim.CutOff}, {"reboot", o.Reboot, sim.Reboot}} {
		for _, text := range list.texts {
			f, err := readFault(p, list.flag, text)
			if err != nil {
				return err
			}
			f.Do = list.harm
			p.Config.Faults = append(p.Config.Faults, f)
			p.Case.Faulty = true
		}
	}
	if p.Algorithm.Dead {
		p.Config.Faults = append([]sim.Fault{{Process: p.Case.N - 1, When: sim.Trigger{Start: true}}}, p.Config.Faults...)
	}
	return nil
}

func readFault(p *Plan, flag, text string) (sim.Fault, error) {
	peer, event, _ := strings.Cut(text, "@")
	id, err := strconv.Atoi(peer)
	if err != nil || id < 0 || id >= p.Case.N {
		return sim.Fault{}, usage("--%s %q: want ID@EVENT, with an id from 0 to %d", flag, text, p.Case.N-1)
	}
	f := sim.Fault{Process: id}
	if event == "start" {
		f.When.Start = true
		return f, nil
	}
	event, times, counted := strings.Cut(event, "#")
	if counted {
		if f.When.Nth, err = strconv.Atoi(times); err != nil || f.When.Nth < 1 {
			return f, usage("--%s %q: %q is not the number of a message, from 1", flag, text, times)
		}
	}
	event, f.When.After = strings.CutPrefix(event, "after-")
	var kinds []string
	for _, k := range p.Algorithm.Kinds {
		kinds = append(kinds, k.Name)
	}
	kind := slices.Index(kinds, event)
	if kind < 0 && event != "any" {
		return f, usage("--%s %q: unknown event %q of %s; want start, %s, or one of these with after-",
			flag, text, event, p.Algorithm.Name, strings.Join(kinds, ", "))
	}
	f.When.Any = kind < 0
	f.When.Kind = sim.Kind(max(0, kind))
	return f, nil
}
