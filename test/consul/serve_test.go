//go:build unix

package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/freeport"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/test/cell"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// withConsul reports whether a real Consul takes the place of stoutd.
func withConsul() bool { return os.Getenv("STOUT_TEST_CONSUL") != "" }

// stoutdVariable names the stoutd that the stand-in starts; package cell uses it
// as well.
const stoutdVariable = "STOUT_TEST_STOUTD"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "consul" {
		fmt.Fprintln(os.Stderr, standIn(os.Args[1:]))
		os.Exit(1)
	}
	os.Exit(testrun.Main(func() int {
		var err error
		if work, err = os.MkdirTemp("", "consul-judges"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(work)
		return m.Run()
	}))
}

// standIn is the program that Consul's test server starts under the name
// consul: it becomes a stoutd with the ports and the node name of the server's
// configuration. It returns only with an error.
func standIn(args []string) error {
	if slices.Equal(args, []string{"version", "-format=json"}) {
		fmt.Println(`{"Version": "1.22.0"}`)
		os.Exit(0)
	}
	if len(args) != 3 || args[0] != "agent" || args[1] != "-config-file" {
		return fmt.Errorf("consul %q: not what Consul's test server runs", args)
	}
	content, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	var conf struct {
		Node  string `json:"node_name"`
		Data  string `json:"data_dir"`
		Ports struct {
			HTTP int `json:"http"`
			API  int `json:"server"`
			Raft int `json:"serf_lan"`
		} `json:"ports"`
	}
	if err := json.Unmarshal(content, &conf); err != nil {
		return err
	}
	door, api, raft := freeport.Address(conf.Ports.HTTP), freeport.Address(conf.Ports.API), freeport.Address(conf.Ports.Raft)
	stoutd := os.Getenv(stoutdVariable)
	return syscall.Exec(stoutd, []string{stoutd,
		"--cell", "dc1", "--id", conf.Node, "--data-dir", conf.Data,
		"--api-listen", api, "--raft-listen", raft, "--replica", conf.Node + "=" + raft + ",http://" + api,
		"--consul-listen", door,
	}, os.Environ())
}

// consuls is the environment in which the name consul means the server under
// test: the stand-in, or a real Consul.
func consuls(t testing.TB) []string {
	t.Helper()
	bin, err := os.MkdirTemp(work, "bin")
	must(t, err)
	program, err := os.Executable()
	if withConsul() {
		program = theCommand(t)
	}
	if err = errors.Join(err, os.Symlink(program, filepath.Join(bin, "consul"))); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), stoutdVariable+"="+stoutd(t))
}

// stoutd is the program stoutd, which package cell builds.
func stoutd(t testing.TB) string {
	t.Helper()
	if name := os.Getenv(stoutdVariable); name != "" {
		return name
	}
	root, err := cell.ModuleRoot()
	dir := filepath.Join(root, "bin", "cell")
	if err = errors.Join(err, cell.Build(context.Background(), root, dir, false, "./cmd/stoutd")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "stoutd")
}

// serve starts a server for one test and returns the address of its HTTP API.
func serve(t testing.TB) string {
	t.Helper()
	if withConsul() {
		return serveConsul(t)
	}
	c, doors := serveCell(t, 1)
	c.Ready(t)
	return doors[0]
}

// serveCell starts a cell in which each replica has the door, and returns the
// addresses of the doors.
func serveCell(t testing.TB, size int) (*cell.Cell, []string) {
	t.Helper()
	c := cell.NewPrepared(t, cell.Options{Size: size})
	var doors []string
	for _, r := range c.Replicas() {
		port, err := freeport.Get()
		must(t, err)
		doors = append(doors, freeport.Address(port))
		must(t, r.StartWith("--consul-listen", freeport.Address(port)))
	}
	return c, doors
}

func serveConsul(t testing.TB) string {
	t.Helper()
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = freeport.Get(); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(theCommand(t), "agent", "-dev", "-bind=127.0.0.1", fmt.Sprint("-http-port=", ports[0]),
		fmt.Sprint("-server-port=", ports[1]), fmt.Sprint("-serf-lan-port=", ports[2]), "-serf-wan-port=-1",
		"-dns-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1", "-hcl", "connect { enabled = false }")
	run(t, cmd)
	addr := freeport.Address(ports[0])
	until(t, "Consul has a leader and its node", func() error {
		var nodes []any
		if err := get(addr, "/v1/catalog/nodes", &nodes); err != nil {
			return err
		}
		if len(nodes) == 0 {
			return errors.New("no nodes")
		}
		return nil
	})
	return addr
}

// process is a program that runs beside the test.
type process struct {
	cmd  *exec.Cmd
	log  string        // its output
	done chan struct{} // closed when it has ended
}

// run starts a program that ends with the test.
func run(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	log, err := os.CreateTemp(work, filepath.Base(cmd.Path)+"-*.log")
	must(t, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	must(t, cmd.Start())
	p := &process{cmd: cmd, log: log.Name(), done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // cmd.ProcessState has the result
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s:\n%s", cmd, p.output())
		}
	})
	return p
}

func (p *process) output() string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-20_000):])
}

// wait waits until the program has ended, and returns its exit code.
func (p *process) wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
	case <-cell.Bounded(t).Done():
		t.Fatalf("%s has not ended", p.cmd)
	}
	return p.cmd.ProcessState.ExitCode()
}

// until waits until a condition holds: check returns nil.
func until(t testing.TB, what string, check func() error) {
	t.Helper()
	err := cell.Wait(cell.Bounded(t), what, func(context.Context) error { return check() })
	must(t, err)
}

// get reads the JSON that a server answers to a GET.
func get(addr, path string, out any) error {
	c := http.Client{Timeout: 10 * time.Second}
	resp, err := c.Get("http://" + addr + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// put makes a PUT that must succeed.
func put(t testing.TB, addr, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+addr+path, strings.NewReader(body))
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("PUT %s: %s", path, resp.Status)
	}
}
