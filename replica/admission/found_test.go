package admission

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// cellar is a cell of three names. Its replicas found, crash, lose their disks
// and get old ones back, in an order drawn from a seed. A replica collects
// cards one by one, so its decision rests on cards of different times.
type cellar struct {
	rng   *rand.Rand
	names []string
	nodes map[string]*node
	disks []*Identity            // all there ever were
	blank map[string]bool        // directories that were put back to their state when new
	known map[string][]*Identity // by directory and cell: the other founders, when it was put back
	over  map[*Identity]bool     // what was there before a disk was put back
	made  int
	story []string
	wrong []string
}

type node struct {
	disk    *Identity // the one it has now
	attic   []*Identity
	answers map[string]Answer // collected in the present round
}

func newCellar(seed uint64) *cellar {
	c := &cellar{rng: rand.New(rand.NewPCG(seed, 1)), names: []string{"r1", "r2", "r3"}, nodes: map[string]*node{}, blank: map[string]bool{}, known: map[string][]*Identity{}, over: map[*Identity]bool{}}
	for _, name := range c.names {
		c.nodes[name] = &node{}
		c.wipe(name)
	}
	return c
}

func (c *cellar) newDirectory() string {
	c.made++
	return fmt.Sprintf("d%d", c.made)
}

func (c *cellar) note(format string, args ...any) {
	c.story = append(c.story, fmt.Sprintf(format, args...))
}

func (c *cellar) wipe(name string) {
	n := c.nodes[name]
	if n.disk != nil {
		n.attic = append(n.attic, n.disk)
	}
	n.disk = &Identity{Cell: "c", ID: name, Directory: c.newDirectory()}
	n.answers = nil
	c.disks = append(c.disks, n.disk)
	c.note("%s has the new disk %s", name, n.disk.Directory)
}

// old gives a replica back an earlier disk.
func (c *cellar) old(name string) {
	n := c.nodes[name]
	if len(n.attic) == 0 {
		return
	}
	i := c.rng.IntN(len(n.attic))
	n.disk, n.attic[i], n.answers = n.attic[i], n.disk, nil
	c.note("%s has the old disk %s", name, n.disk.Directory)
}

// putBack restores a replica's disk to its state when it was new.
func (c *cellar) putBack(name string) {
	n := c.nodes[name]
	was := n.disk
	n.disk, n.answers = &Identity{Cell: "c", ID: name, Directory: was.Directory}, nil
	c.disks = append(c.disks, n.disk)
	c.blank[was.Directory], c.over[was] = true, true
	for _, d := range c.disks {
		if d.ID != name && d.CellID != "" && d.Founding.Has(was.ServerID()) {
			key := was.Directory + d.CellID
			c.known[key] = append(c.known[key], d)
		}
	}
	c.note("%s has its disk %s as it was when it was new", name, was.Directory)
}

func (c *cellar) card(name string) Info {
	d := c.nodes[name].disk
	return Info{Cell: d.Cell, ID: name, Directory: d.Directory, Names: c.names, Founding: d.Founding, CellID: d.CellID}
}

// ask makes a replica collect one more card, or find that the other is away.
func (c *cellar) ask(name string, away bool) {
	n := c.nodes[name]
	if n.answers == nil {
		n.answers = map[string]Answer{}
	}
	for _, i := range c.rng.Perm(len(c.names)) {
		other := c.names[i]
		if _, asked := n.answers[other]; asked || other == name {
			continue
		}
		a := Answer{Info: c.card(other)}
		if away {
			a = Answer{Err: errors.New("away")}
		}
		n.answers[other] = a
		return
	}
}

// decide makes a replica that has asked all others follow Decide. A crash may
// come before the decision is on disk.
func (c *cellar) decide(name string, crash bool) Decision {
	n := c.nodes[name]
	d := Decide(Self{Identity: *n.disk, Names: c.names, NewDirectory: c.newDirectory}, n.answers)
	n.answers = nil
	if crash || d.Step != Save && d.Step != Go {
		return d
	}
	if d.Identity.Directory != n.disk.Directory { // the old directory no longer exists
		n.disk = &Identity{}
		c.disks = append(c.disks, n.disk)
	}
	knows := func(d *Identity) bool { return !c.over[d] }
	if d.Step == Go && n.disk.CellID == "" && slices.ContainsFunc(c.known[n.disk.Directory+d.Identity.CellID], knows) {
		c.wrong = append(c.wrong, fmt.Sprintf("%s was put back, and is a founder of cell %s again", n.disk.Directory, d.Identity.CellID))
	}
	*n.disk = d.Identity
	c.note("%s: %v %+v", name, d.Step, d.Identity)
	return d
}

func (c *cellar) step() {
	name := c.names[c.rng.IntN(len(c.names))]
	switch n := c.rng.IntN(40); {
	case n == 5:
		c.putBack(name)
	case n == 0:
		c.wipe(name)
	case n == 1:
		c.old(name)
	case n == 2:
		c.nodes[name].answers = nil // a restart
	case len(c.nodes[name].answers) < len(c.names)-1:
		c.ask(name, n == 3)
	default:
		c.decide(name, n == 4)
	}
}

// cells returns the directories that were founded or joined, by cell.
func (c *cellar) cells() map[string]Founding {
	out := map[string]Founding{}
	for _, d := range c.disks {
		if d.CellID != "" {
			out[d.CellID] = d.Founding
		}
	}
	return out
}

// check verifies three rules. Two founded cells share no directory that was not
// put back. Each member of a cell belongs to its founding. A directory that was
// put back does not continue as the founder that others knew.
func (c *cellar) check() error {
	cells := c.cells()
	for _, d := range c.disks {
		if d.CellID != "" && (d.Founding.CellID("c") != d.CellID || !d.Founding.Has(d.ServerID())) {
			return fmt.Errorf("%s belongs to cell %s, of which it is no founder", d.ServerID(), d.CellID)
		}
		owners := 0
		for _, f := range cells {
			if f.Has(d.ServerID()) {
				owners++
			}
		}
		if owners > 1 && !c.blank[d.Directory] {
			return fmt.Errorf("%s is of %d cells", d.ServerID(), owners)
		}
	}
	if c.wrong != nil {
		return errors.New(c.wrong[0])
	}
	return nil
}

// settle runs whole rounds without faults. It reports a replica that ends as
// neither a member nor a stranger to some cell.
func (c *cellar) settle() error {
	var last map[string]Decision
	for range 60 {
		last = map[string]Decision{}
		for _, i := range c.rng.Perm(len(c.names)) {
			name := c.names[i]
			c.nodes[name].answers = nil
			for range len(c.names) - 1 {
				c.ask(name, false)
			}
			last[name] = c.decide(name, false)
		}
	}
	for _, name := range c.names {
		if d := last[name]; d.Step != Go && d.Step != Outsider {
			return fmt.Errorf("%s ends with %v: %s", name, d.Step, d.Why)
		}
		if own := c.nodes[name].disk; last[name].Step == Outsider && c.cells()[last[name].CellID].Has(own.ServerID()) {
			return fmt.Errorf("%s is told to have %s admitted, which is a member", name, own.Directory)
		}
	}
	return nil
}

// TestFoundingsShareNoDirectory: among foundings that share a directory at most
// one succeeds, under any order, crashes, wiped disks and old disks. After the
// faults every replica is a member or a stranger.
func TestFoundingsShareNoDirectory(t *testing.T) {
	founded, twice := 0, 0
	for seed := range uint64(400) {
		c := newCellar(seed)
		for range 120 {
			c.step()
			if err := c.check(); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(c.story, "\n"))
			}
		}
		if err := c.settle(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(c.story, "\n"))
		}
		if n := len(c.cells()); n > 0 {
			founded++
			twice += min(1, n-1)
		}
	}
	if founded < 390 || twice == 0 {
		t.Errorf("%d runs have founded a cell, %d more than one: the schedules test too little", founded, twice)
	}
}

// TestDecide has one line for each situation of a replica.
func TestDecide(t *testing.T) {
	names := []string{"r1", "r2", "r3"}
	all := Founding{{"r1", "a", ""}, {"r2", "b", ""}, {"r3", "c", ""}}
	other := Founding{{"r1", "a", ""}, {"r2", "b", ""}, {"r3", "z", ""}}
	id := all.CellID("c")
	card := func(name, directory string) Info {
		return Info{Cell: "c", ID: name, Directory: directory, Names: names}
	}
	with := func(c Info, change func(*Info)) Info { change(&c); return c }
	prepared := func(c Info) Info { return with(c, func(c *Info) { c.Founding = all }) }
	member := func(c Info, at uint64, of ...string) Info {
		return with(c, func(c *Info) { c.Founding, c.CellID, c.Members, c.ConfigIndex = all, id, of, at })
	}
	blank := Identity{Cell: "c", ID: "r1", Directory: "a"}
	ready, gone := blank, blank
	ready.Founding = all
	other1 := blank
	other1.Founding = other
	votes := func(c Info, of ...string) Info { return with(c, func(c *Info) { c.Voters = of }) }
	gone.Founding, gone.CellID, gone.Replaced = all, id, 9
	for name, tc := range map[string]struct {
		self   Identity
		others []Info // no card of r3: it is away
		step   Step
		why    string
		want   func(Identity) bool
	}{
		"one is away":                  {blank, []Info{card("r2", "b")}, Wait, "r3 (away)", nil},
		"another list":                 {blank, []Info{card("r2", "b"), with(card("r3", "c"), func(c *Info) { c.Names = names[1:] })}, Wait, "configure the same list", nil},
		"all are there":                {blank, []Info{card("r2", "b"), card("r3", "c")}, Save, "", func(w Identity) bool { return slices.Equal(w.Founding, all) && w.CellID == "" }},
		"another has prepared":         {blank, []Info{prepared(card("r2", "b")), card("r3", "c")}, Save, "", func(w Identity) bool { return slices.Equal(w.Founding, all) }},
		"not all have prepared":        {ready, []Info{prepared(card("r2", "b")), card("r3", "c")}, Wait, "waiting until r3 has prepared for it", nil},
		"another address":              {ready, []Info{prepared(card("r2", "b")), with(card("r3", "c"), func(c *Info) { c.Addrs = []string{"h9:1", "h2:1", "h3:1"} })}, Wait, "until r3 has prepared for it (the founding list of r3 has r1 at h9:1, that of r1 at h1:1: correct the wrong one)", nil},
		"another address, one away":    {blank, []Info{with(card("r2", "b"), func(c *Info) { c.Addrs = []string{"h1:1", "h2:1", "h9:1"} })}, Wait, "waiting for r3 (away) (the founding list of r2 has r3 at h9:1, that of r1 at h3:1: correct the wrong one)", nil},
		"all have prepared":            {ready, []Info{prepared(card("r2", "b")), prepared(card("r3", "c"))}, Go, "", func(w Identity) bool { return w.CellID == id }},
		"another is prepared else":     {blank, []Info{card("r2", "b"), with(card("r3", "c"), func(c *Info) { c.Founding = other })}, Wait, "another founding", nil},
		"a founder has a new disk":     {ready, []Info{prepared(card("r2", "b")), card("r3", "z")}, Save, "r3 has directory z and had c", func(w Identity) bool { return w.Directory == "new" && w.Founding == nil }},
		"and is away":                  {ready, []Info{prepared(card("r2", "b"))}, Wait, "r3", nil},
		"it founded before the others": {ready, []Info{member(card("r2", "b"), 0), card("r3", "z")}, Go, "", func(w Identity) bool { return w.CellID == id }},
		"it was replaced before":       {ready, []Info{member(card("r2", "b"), 7, "r1/x", "r2/b", "r3/c")}, Outsider, "knows r1 by directory x", nil},
		"new at an old address":        {Identity{Cell: "c", ID: "r1", Directory: "n"}, []Info{member(card("r2", "b"), 7, "r1/a", "r2/b", "r3/c")}, Outsider, "knows r1 by directory a", nil},
		"and the others just start":    {Identity{Cell: "c", ID: "r1", Directory: "n"}, []Info{member(card("r2", "b"), 0)}, Outsider, "gives its members only after it has a master", nil},
		"not a member at all":          {Identity{Cell: "c", ID: "r4", Directory: "n"}, []Info{member(card("r2", "b"), 7, "r1/a", "r2/b", "r3/c")}, Outsider, "no member of that name", nil},
		"admitted":                     {Identity{Cell: "c", ID: "r1", Directory: "n"}, []Info{member(card("r2", "b"), 7, "r1/a", "r2/b", "r3/c", "r1/n")}, Go, "", func(w Identity) bool { return w.CellID == id && !w.Founding.Has("r1/n") && w.Admitted == 7 }},
		"admitted, and one lags":       {Identity{Cell: "c", ID: "r1", Directory: "n"}, []Info{member(card("r2", "b"), 1, "r1/a"), member(card("r3", "c"), 7, "r1/n")}, Go, "", nil},
		"put back as before founding":  {blank, []Info{member(card("r2", "b"), 7, "r1/a", "r2/b", "r3/c")}, Save, "put back", func(w Identity) bool { return w.Directory == "new" && w.Founding == nil && w.CellID == "" }},
		"and replaced meanwhile":       {blank, []Info{member(card("r2", "b"), 7, "r1/x", "r2/b", "r3/c")}, Save, "put back", func(w Identity) bool { return w.Directory == "new" }},
		"and it has prepared another":  {other1, []Info{member(card("r2", "b"), 7, "r1/a", "r2/b", "r3/c")}, Save, "put back", func(w Identity) bool { return w.Directory == "new" && w.Founding == nil }},
		"put back as before admission": {Identity{Cell: "c", ID: "r1", Directory: "n"}, []Info{votes(member(card("r2", "b"), 9, "r1/n", "r2/b", "r3/c"), "r1/n")}, Save, "put back", func(w Identity) bool { return w.Directory == "new" && w.Founding == nil && w.CellID == "" }},
		"admitted, and others vote":    {Identity{Cell: "c", ID: "r1", Directory: "n"}, []Info{votes(member(card("r2", "b"), 9, "r1/n", "r2/b", "r3/c"), "r2/b", "r3/c")}, Go, "", nil},
		"a member alone":               {Identity{Cell: "c", ID: "r1", Directory: "a", Founding: all, CellID: id}, nil, Go, "", nil},
		"replaced":                     {gone, []Info{member(card("r2", "b"), 9, "r1/x", "r2/b", "r3/c")}, Outsider, "another was put in its place", nil},
		"replaced, and nobody answers": {gone, nil, Outsider, "it was removed or replaced, and no member of the cell answers at r1, r2, r3; if these", nil},
		"replaced, and one lags":       {gone, []Info{member(card("r2", "b"), 7, "r1/a", "r2/b", "r3/c")}, Outsider, "", nil},
		"replaced and admitted again":  {gone, []Info{member(card("r2", "b"), 11, "r1/a", "r2/b", "r3/c")}, Go, "", func(w Identity) bool { return w.Replaced == 0 && w.Admitted == 11 }},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]Answer{"r2": {Err: errors.New("away")}, "r3": {Err: errors.New("away")}}
			for _, c := range tc.others {
				answers[c.ID] = Answer{Info: c}
			}
			d := Decide(Self{Identity: tc.self, Names: names, Addrs: []string{"h1:1", "h2:1", "h3:1"}, NewDirectory: func() string { return "new" }}, answers)
			if d.Step != tc.step || !strings.Contains(d.Why, tc.why) {
				t.Errorf("%v: %s; want %v: %s", d.Step, d.Why, tc.step, tc.why)
			}
			if tc.want != nil && !tc.want(d.Identity) {
				t.Errorf("identity %+v", d.Identity)
			}
		})
	}
}

// TestFindReplaced: a directory is replaced if it is missing from the latest
// committed configuration at or after the last one in its own log. Its own last
// one may never have been committed.
func TestFindReplaced(t *testing.T) {
	const own = 100
	with, without := []string{"r1/a", "r2/b"}, []string{"r1/n", "r2/b"}
	for name, tc := range map[string]struct {
		cards []Info
		want  uint64
	}{
		"behind one's own":                 {[]Info{{CellID: "x", ConfigIndex: 101, Members: without}}, 101},
		"and it lists one":                 {[]Info{{CellID: "x", ConfigIndex: 101, Members: with}}, 0},
		"in its place":                     {[]Info{{CellID: "x", ConfigIndex: 100, Members: without}}, 100},
		"another cell's":                   {[]Info{{CellID: "y", ConfigIndex: 101, Members: without}}, 0},
		"before it, and others are behind": {[]Info{{CellID: "x", ConfigIndex: 96, Applied: 99, Members: without}}, 0},
		"before it, and others are not":    {[]Info{{CellID: "x", ConfigIndex: 96, Applied: 100, Members: without}}, 96},
		"and it lists one, still":          {[]Info{{CellID: "x", ConfigIndex: 96, Applied: 5000, Members: with}}, 0},
		"one of the others is not behind":  {[]Info{{CellID: "x", ConfigIndex: 96, Applied: 99, Members: without}, {CellID: "x", ConfigIndex: 96, Applied: 100, Members: without}}, 96},
		"one of the others knows better":   {[]Info{{CellID: "x", ConfigIndex: 96, Applied: 99, Members: without}, {CellID: "x", ConfigIndex: 98, Applied: 98, Members: with}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			self := Self{Identity: Identity{Cell: "c", ID: "r1", Directory: "a", CellID: "x"}, ConfigIndex: own}
			answers := map[string]Answer{"r4": {Err: errors.New("away")}}
			for i, c := range tc.cards {
				answers[fmt.Sprintf("r%d", 2+i)] = Answer{Info: c}
			}
			d, ok := FindReplaced(self, answers)
			if ok != (tc.want > 0) || ok && d.Identity.Replaced != tc.want {
				t.Errorf("%v, %+v", ok, d)
			}
		})
	}
	// The first replica has nothing yet from the entry that admitted it. The
	// other does not know yet what was committed there.
	admitted := Self{Identity: Identity{Cell: "c", ID: "r1", Directory: "n", CellID: "x", Admitted: 100}, ConfigIndex: 1}
	for applied, want := range map[uint64]bool{99: false, 100: true} {
		c := Info{CellID: "x", ConfigIndex: 1, Applied: applied, Members: with}
		if d, ok := FindReplaced(admitted, map[string]Answer{"r2": {Info: c}}); ok != want {
			t.Errorf("admitted at 100, by one that has applied all up to %d: %+v", applied, d)
		}
	}
	// The first replica has no log yet, and the other has founded and does not
	// run.
	self := Self{Identity: Identity{Cell: "c", ID: "r1", Directory: "a", CellID: "x"}}
	if d, ok := FindReplaced(self, map[string]Answer{"r2": {Info: Info{CellID: "x"}}}); ok {
		t.Errorf("%+v by a card without a configuration", d)
	}
}

func TestForeign(t *testing.T) {
	answers := map[string]Answer{
		"r2": {Info: Info{CellID: "theirs"}}, "r3": {Info: Info{CellID: "ours"}}, "r4": {Err: errors.New("refused")}, "r5": {},
	}
	for mine, want := range map[string]string{
		"ours":   "r2 belongs to cell id theirs",
		"theirs": "r3 belongs to cell id ours",
		"third":  "r2 belongs to cell id theirs, r3 belongs to cell id ours",
	} {
		if got := Foreign(answers, mine); got != want {
			t.Errorf("to %s: %q, want %q", mine, got, want)
		}
	}
}

func TestKnown(t *testing.T) {
	answers := map[string]Answer{
		"r1": {Info: Info{CellID: "c", Stored: Stored{Term: 3, Index: 50}}},
		"r2": {Info: Info{CellID: "c", Stored: Stored{Term: 5, Index: 40}}},
		"r3": {Info: Info{CellID: "another", Stored: Stored{Term: 9, Index: 90}}},
		"r4": {Info: Info{CellID: "c"}},
	}
	known := Known(answers, "c")
	if known != (Stored{Term: 5, Index: 40}) {
		t.Errorf("known is %+v", known)
	}
	for _, c := range []struct {
		last, term uint64
		forgotten  bool
	}{
		{40, 5, false}, {41, 5, false}, {39, 5, true}, {39, 6, false}, {100, 4, true}, {0, 0, true},
	} {
		if err := known.Forgotten(c.last, c.term); (err != nil) != c.forgotten {
			t.Errorf("up to entry %d in term %d: %v", c.last, c.term, err)
		}
	}
	if err := (Stored{}).Forgotten(0, 0); err != nil {
		t.Errorf("nothing is known, and %v", err)
	}
}

// TestFoundersAgreeOnAccess: no replica prepares before all founders have the
// same root token, or all have none. Their agreement is stored.
func TestFoundersAgreeOnAccess(t *testing.T) {
	for _, c := range []struct{ own, theirs, why string }{
		{"", "", ""},
		{"x", "x", ""},
		{"x", "", "r1 has a found-token-file, and r2 has none"},
		{"", "x", "r2 has a found-token-file, and r1 has none"},
		{"x", "y", "the found-token-files of r2 and r1 have different secrets"},
	} {
		self := Self{Identity: Identity{Cell: "c", ID: "r1", Directory: "a"}, Names: []string{"r1", "r2"}, Access: c.own}
		card := Info{Cell: "c", ID: "r2", Directory: "b", Names: self.Names, Access: c.theirs}
		d := Decide(self, map[string]Answer{"r2": {Info: card}})
		if c.why != "" {
			if d.Step != Wait || !strings.Contains(d.Why, c.why) {
				t.Errorf("%q and %q: %+v", c.own, c.theirs, d)
			}
			continue
		}
		if d.Step != Save || d.Identity.Access != c.own {
			t.Fatalf("%q and %q: %+v", c.own, c.theirs, d)
		}
		self.Identity, self.Access, card.Founding = d.Identity, "", d.Identity.Founding
		card.Access = ""
		if d = Decide(self, map[string]Answer{"r2": {Info: card}}); d.Step != Go || d.Identity.Access != c.own {
			t.Errorf("%q, taken away when it was prepared: %+v", c.own, d)
		}
	}
}
