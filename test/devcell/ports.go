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
	size       = 3    // replicas of the cell
	firstPort  = 7101 // of r1's API; r2 and r3 use the next two
	raftBehind = 100  // Raft port minus API port
	nextPorts  = 10   // distance between two ranges that are tried
	tries      = 10
)

// portsFile lies beside the data. The members of a cell know each other's
// addresses, so a cell keeps the ports that it was founded with.
const portsFile = "ports.json"

// ports are the first ports of a cell. Each is the first of size consecutive
// ports.
type ports struct {
	API  int `json:"api"` // r1's
	Raft int `json:"raft"`
}

// at returns the ports that belong to the first API port.
func at(api int) ports { return ports{API: api, Raft: api + raftBehind} }

func (p ports) String() string {
	return fmt.Sprintf("%d to %d and %d to %d", p.API, p.API+size-1, p.Raft, p.Raft+size-1)
}

// choosePorts returns the ports for the cell in dir: the ports that it was
// founded with; else the wanted ones (0: any); else the default ones or the
// next free range. taken reports whether a port is in use. The choice is
// written to dir and holds from then on.
func choosePorts(dir string, wanted int, inUse func(port int) bool) (ports, error) {
	kept, err := readPorts(dir)
	switch {
	case err != nil:
		return ports{}, err
	case kept.API != 0 && wanted != 0 && wanted != kept.API:
		return ports{}, fmt.Errorf("--port %d: the cell in %s was founded on ports %s and keeps them; omit --port, or create another cell with --data DIR", wanted, relative(dir), kept)
	case kept.API != 0:
		if port := firstInUse(kept, inUse); port != 0 {
			return ports{}, fmt.Errorf("port %d is taken, and the cell in %s keeps the ports that it was founded on (%s): stop the process that listens there (`lsof -i :%d` shows it), or run another cell beside this one: make run ARGS=\"--data .stout2\"", port, relative(dir), kept, port)
		}
		return kept, nil
	}
	chosen, err := newPorts(wanted, inUse)
	if err != nil {
		return ports{}, err
	}
	return chosen, writePorts(dir, chosen)
}

func newPorts(wanted int, inUse func(port int) bool) (ports, error) {
	if wanted != 0 {
		if most := 65535 - raftBehind - size; wanted < 1024 || wanted > most {
			return ports{}, fmt.Errorf("--port %d: want a port within 1024..%d", wanted, most)
		}
		if port := firstInUse(at(wanted), inUse); port != 0 {
			return ports{}, fmt.Errorf("--port %d: port %d is taken (ports %s are needed)", wanted, port, at(wanted))
		}
		return at(wanted), nil
	}
	for i := range tries {
		if p := at(firstPort + i*nextPorts); firstInUse(p, inUse) == 0 {
			return p, nil
		}
	}
	return ports{}, fmt.Errorf("no free ports between %d and %d; choose others, for example: make run ARGS=\"--port 12000\"", firstPort, firstPort+tries*nextPorts)
}

// firstInUse returns the first port of p that is in use, or 0.
func firstInUse(p ports, inUse func(port int) bool) int {
	for i := range size {
		for _, port := range []int{p.API + i, p.Raft + i} {
			if inUse(port) {
				return port
			}
		}
	}
	return 0
}

// inUse reports whether the port is in use, by trying to listen on it.
func inUse(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return true
	}
	_ = l.Close()
	return false
}

// readPorts reads the file that writePorts wrote, and returns zero ports if
// there is no file.
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
		err = errors.New("no ports in it")
	}
	if err != nil {
		return ports{}, fmt.Errorf("%s, the file of the ports that the cell was founded on: %w", name, err)
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
