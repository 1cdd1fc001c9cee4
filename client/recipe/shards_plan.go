package recipe

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// shardPlan has the name of the member that is to serve each shard. It is empty
// before the first plan.
type shardPlan []string

// planFile is the content of the file plan.
type planFile struct {
	Members []string `json:"members"` // in order
	Shards  []int    `json:"shards"`  // by shard: the member's index in Members
}

// parse reads a plan; nil, for no file, is an empty plan.
func (g Shards) parse(file *client.File) (shardPlan, error) {
	if file == nil {
		return nil, nil
	}
	var p planFile
	if err := json.Unmarshal(file.Content, &p); err != nil {
		return nil, lockapi.Invalid("plan", "the file %s is not a plan of shards: %v", g.plan(), err)
	}
	if len(p.Shards) != g.n {
		return nil, lockapi.Invalid("n", "the group at %s has %d shards, not %d: all members need the same number", g.dir, len(p.Shards), g.n)
	}
	plan := make(shardPlan, g.n)
	for k, i := range p.Shards {
		if i < 0 || i >= len(p.Members) {
			return nil, lockapi.Invalid("plan", "the file %s is not a plan of shards: shard %d has member %d of %d", g.plan(), k, i, len(p.Members))
		}
		plan[k] = p.Members[i]
	}
	return plan, nil
}

func (g Shards) format(plan shardPlan) []byte {
	p := planFile{Members: slices.Compact(slices.Sorted(slices.Values(plan)))}
	for _, name := range plan {
		i, _ := slices.BinarySearch(p.Members, name)
		p.Shards = append(p.Shards, i)
	}
	content, _ := json.Marshal(p) // strings and numbers only
	return content
}

// next returns the plan after the next step. members are the present ones, in
// order; owners has the member that serves each shard, or "".
//
// A shard without a present member gets one at once, and so does a shard that
// no member serves yet: no work is interrupted by that. A shard that is served
// moves alone, and only from a plan that every member follows.
func (p shardPlan) next(members, owners []string) (_ shardPlan, changed bool) {
	if len(members) == 0 {
		return p, false
	}
	plan, load := make(shardPlan, len(owners)), make(map[string]int, len(members))
	copy(plan, p)
	isMember := func(name string) bool {
		_, ok := slices.BinarySearch(members, name)
		return ok
	}
	for k, name := range plan {
		if !isMember(name) {
			if name = owners[k]; !isMember(name) {
				continue
			}
			plan[k], changed = name, true
		}
		load[name]++
	}
	fewer := func(a, b string) int { return load[a] - load[b] }
	for k, name := range plan {
		if !isMember(name) {
			plan[k], changed = slices.MinFunc(members, fewer), true
			load[plan[k]]++
		}
	}
	for {
		from, to := slices.MaxFunc(members, fewer), slices.MinFunc(members, fewer)
		if load[from]-load[to] < 2 {
			return plan, changed
		}
		k := plan.spare(from, owners)
		served := owners[k] != ""
		if served && (changed || !slices.Equal(plan, owners)) {
			return plan, changed
		}
		plan[k], changed = to, true
		load[from]--
		load[to]++
		if served {
			return plan, true
		}
	}
}

// spare returns the shard that a member gives away: one that is not served yet,
// or else its last.
func (p shardPlan) spare(of string, owners []string) (last int) {
	for k, name := range p {
		switch {
		case name != of:
		case owners[k] == "":
			return k
		default:
			last = k
		}
	}
	return last
}

// shardView is the group as its files show it.
type shardView struct {
	Shards
	synced   bool
	joined   map[string]Member // by name
	owners   []string          // by shard, "" for none
	assigned shardPlan
	planned  uint64 // the plan's revision, 0 for none
}

func newShardView(g Shards) *shardView {
	return &shardView{Shards: g, joined: make(map[string]Member), owners: make([]string, g.n)}
}

// note applies a change. A file without content was changed again at once, and
// that change comes next.
func (v *shardView) note(change *client.FileChange) (err error) {
	v.synced = v.synced || change.Synced
	file := change.File
	if file != nil && file.Content == nil {
		return nil
	}
	if name, ok := memberName(v.members(), change.Path); ok {
		if delete(v.joined, name); file != nil {
			v.joined[name] = Member{Name: name, Value: file.Content, Since: file.CreatedAt}
		}
		return nil
	}
	if number, ok := strings.CutPrefix(change.Path, v.shards()); ok {
		if k, err := strconv.Atoi(number); err == nil && k >= 0 && k < v.n && v.shard(k) == change.Path {
			if v.owners[k] = ""; file != nil {
				v.owners[k] = string(file.Content)
			}
		}
		return nil
	}
	if change.Path == v.plan() && change.Revision > v.planned {
		v.assigned, err = v.parse(file)
		v.planned = change.Revision
	}
	return err
}

// ready reports whether the view is complete after a change. Changes found
// after a gap count together.
func (v *shardView) ready(change *client.FileChange) bool {
	return v.synced && (change.Synced || !change.Listed)
}

// names returns the names of the members, in order.
func (v *shardView) names() []string { return slices.Sorted(maps.Keys(v.joined)) }

// served returns the member that serves each shard.
func (v *shardView) served() []Member {
	all := make([]Member, v.n)
	for k, name := range v.owners {
		all[k] = v.joined[name]
	}
	return all
}
