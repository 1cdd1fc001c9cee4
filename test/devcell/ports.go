package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

const (
	size       = 3    // replicas of a cell
	firstPort  = 7101 // of r1's API; those of the others follow
	raftBehind = 100  // from the port of an API to that of its raft
	nextPorts  = 10   // from the ports that are tried to those that are tried next
	tries      = 10
)

// portsFile is beside the data: a cell's members know each other's addresses,
// so it keeps the ports that it was founded with.
const portsFile = "ports.json"

// ports are those of a cell: Size of each, one after the other.
type ports struct {
	API  int `json:"api"` // of r1
	Raft int `json:"raft"`
}

// at are the ports for an API's first port.
func at(api int) ports { return ports{API: api, Raft: api + raftBehind} }

func (p ports) String() string {
	return fmt.Sprintf("%d to %d and %d to %d", p.API, p.API+size-1, p.Raft, p.Raft+size-1)
}

// choosePorts finds the ports for the cell in dir: those that it was founded
// with, else those that were asked for (wanted, 0 for none), else the usual
// ones, or the next free ones where those are taken. taken tells whether
// somebody listens on a port. The choice is written down, so that it holds from
// then on.
func choosePorts(dir string, wanted int, taken func(port int) bool) (ports, error) {
	kept, err := readPorts(dir)
	switch {
	case err != nil:
		return ports{}, err
	case kept.API != 0 && wanted != 0 && wanted != kept.API:
		return ports{}, fmt.Errorf("--port %d: the cell in %s was founded on ports %s and keeps them; leave --port out, or found another cell with --data DIR", wanted, relative(dir), kept)
	case kept.API != 0:
		if port := firstTaken(kept, taken); port != 0 {
			return ports{}, fmt.Errorf("port %d is taken, and the cell in %s keeps the ports that it was founded on (%s): end what listens there (`lsof -i :%d` shows it), or run another cell beside it: make run ARGS=\"--data .stout2\"", port, relative(dir), kept, port)
		}
		return kept, nil
	}
	chosen, err := newPorts(wanted, taken)
	if err != nil {
		return ports{}, err
	}
	return chosen, writePorts(dir, chosen)
}

// newPorts are the ports for a cell that is still to be founded.
func newPorts(wanted int, taken func(port int) bool) (ports, error) {
	if wanted != 0 {
		if most := 65535 - raftBehind - size; wanted < 1024 || wanted > most {
			return ports{}, fmt.Errorf("--port %d: it is within 1024..%d", wanted, most)
		}
		if port := firstTaken(at(wanted), taken); port != 0 {
			return ports{}, fmt.Errorf("--port %d: port %d is taken (ports %s are needed)", wanted, port, at(wanted))
		}
		return at(wanted), nil
	}
	for i := range tries {
		if p := at(firstPort + i*nextPorts); firstTaken(p, taken) == 0 {
			return p, nil
		}
	}
	return ports{}, fmt.Errorf("no free ports between %d and %d; say where there are some: make run ARGS=\"--port 12000\"", firstPort, firstPort+tries*nextPorts)
}

// firstTaken is a port of the cell's that somebody listens on, 0 where there is
// none.
func firstTaken(p ports, taken func(port int) bool) int {
	for i := range size {
		for _, port := range []int{p.API + i, p.Raft + i} {
			if taken(port) {
				return port
			}
		}
	}
	return 0
}

// isTaken asks the system.
func isTaken(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return true
	}
	_ = l.Close()
	return false
}

// readPorts reads what writePorts wrote; the zero ports where nobody has.
func readPorts(dir string) (p ports, err error) {
	name := filepath.Join(dir, portsFile)
	raw, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return ports{}, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err == nil && (p.API <= 0 || p.Raft <= 0) {
		err = errors.New("it has no ports")
	}
	if err != nil {
		return ports{}, fmt.Errorf("%s, which says on which ports the cell was founded: %w", name, err)
	}
	return p, nil
}

func writePorts(dir string, p ports) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, portsFile), append(raw, '\n'), 0o644)
}
