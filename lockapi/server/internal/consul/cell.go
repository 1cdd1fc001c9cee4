package consul

import (
	"net"
	"net/url"
	"strconv"
)

// Cell is what this replica knows of its cell. Client libraries ask for it on
// their way to keys and sessions.
type Cell struct {
	Self     string // id of this replica
	Version  string // of Stout
	Leader   string // host:port of the master; empty if unknown
	Revision uint64
	Members  []Member
}

// Member is a replica. Address is the host:port at which the others reach it.
type Member struct{ ID, Address string }

// aboutCell answers from what this replica knows.
func aboutCell(answer func(*Cell) any) func(*Request, url.Values, *Call) error {
	return func(_ *Request, _ url.Values, c *Call) error {
		c.Local = func(of *Cell) (*Reply, error) { return reply(answer(of), max(of.Revision, 1)) }
		return nil
	}
}

func peersOf(c *Cell) any {
	all := []string{}
	for _, m := range c.Members {
		all = append(all, m.Address)
	}
	return all
}

type object = map[string]any

func (m *Member) member() object {
	host, port, _ := net.SplitHostPort(m.Address)
	n, _ := strconv.Atoi(port)
	return object{"Name": m.ID, "Addr": host, "Port": n, "Status": 1, "Tags": map[string]string{"role": "consul", "dc": datacenter},
		"ProtocolMin": 1, "ProtocolMax": 5, "ProtocolCur": 2, "DelegateMin": 2, "DelegateMax": 5, "DelegateCur": 4}
}

func ofMembers(describe func(*Member) object) func(*Request, url.Values, *Call) error {
	return aboutCell(func(c *Cell) any {
		all := []object{}
		for i := range c.Members {
			all = append(all, describe(&c.Members[i]))
		}
		return all
	})
}

func selfOf(c *Cell) any {
	self := object{}
	for i := range c.Members {
		if c.Members[i].ID == c.Self {
			self = c.Members[i].member()
		}
	}
	return object{
		"Config": object{"Datacenter": datacenter, "PrimaryDatacenter": datacenter, "NodeName": c.Self, "Server": true, "Version": c.Version, "SessionTTLMin": minTTL},
		"Member": self, "Stats": object{}, "Meta": object{},
	}
}

func (m *Member) node() object {
	host, _, _ := net.SplitHostPort(m.Address)
	return object{"ID": "", "Node": m.ID, "Address": host, "Datacenter": datacenter, "TaggedAddresses": map[string]string{"lan": host, "wan": host},
		"Meta": object{}, "CreateIndex": 1, "ModifyIndex": 1}
}

// parseHealth answers that a node's only check passes. The door has no health
// checks: nodes are names.
func parseHealth(r *Request, _ url.Values, c *Call) error {
	node, err := r.argument()
	if err != nil {
		return err
	}
	return aboutCell(func(*Cell) any {
		return []object{{"Node": node, "CheckID": serfHealth, "Name": "Serf Health Status", "Status": "passing", "Notes": "", "Output": "Stout has no health checks",
			"ServiceID": "", "ServiceName": "", "ServiceTags": []string{}, "Definition": object{}, "CreateIndex": 1, "ModifyIndex": 1}}
	})(r, nil, c)
}
