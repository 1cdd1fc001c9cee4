package admission

import "slices"

// Roster is what a replica knows about the cell's members. It is immutable.
//
// A certificate names a replica and not its directory: the key of a removed
// replica opens connections for any directory of its name. So a name without
// any directory in the configuration is removed as a whole.
type Roster struct {
	Index   uint64   `json:"index"`             // of the latest configuration known to be committed; 0 if unknown
	Members []string `json:"members,omitempty"` // server ids of that configuration
	// Removed lists server ids that an earlier configuration had and this one
	// does not, and names without a directory. The latest removal is last.
	Removed []string `json:"removed,omitempty"`
}

// maxRemoved bounds Removed: the list is part of the card, and a card's frame
// is bounded.
const maxRemoved = 256

// Lists reports whether a server is a member.
func (r *Roster) Lists(server string) bool { return slices.Contains(r.Members, server) }

// Gone reports whether a server was removed and has not become a member again.
func (r *Roster) Gone(server string) bool {
	name, _ := Split(server)
	return !r.Lists(server) && (slices.Contains(r.Removed, server) || slices.Contains(r.Removed, name))
}

// Note returns the roster after a configuration committed at an index, and after
// servers that another roster lists as removed. Configurations may come in any
// order. A server that an earlier one lists and the latest does not was removed
// in between.
func (r *Roster) Note(index uint64, members, removed []string) *Roster {
	next := &Roster{Index: r.Index, Members: r.Members, Removed: slices.Clone(r.Removed)}
	was := members
	if index == 0 {
		was = nil
	} else if index > r.Index {
		next.Index, next.Members, was = index, members, r.Members
	}
	for _, list := range [][]string{removed, was} {
		for _, server := range list {
			next.remove(server)
		}
	}
	next.Removed = slices.DeleteFunc(next.Removed, next.has)
	next.Removed = slices.Delete(next.Removed, 0, max(0, len(next.Removed)-maxRemoved))
	return next
}

// remove adds a server and its name to the removed ones, unless they are a
// member's.
func (r *Roster) remove(server string) {
	name, _ := Split(server)
	for _, id := range []string{server, name} {
		if !r.has(id) && !slices.Contains(r.Removed, id) {
			r.Removed = append(r.Removed, id)
		}
	}
}

// has reports whether a server id or a name belongs to a member.
func (r *Roster) has(id string) bool {
	return slices.ContainsFunc(r.Members, func(m string) bool {
		name, _ := Split(m)
		return m == id || name == id
	})
}

// Without returns the answers without the answers of removed replicas. Such a replica
// could otherwise make a member end, or quarantine its directory.
func (r *Roster) Without(answers map[string]Answer) map[string]Answer {
	kept := map[string]Answer{}
	for name, a := range answers {
		if a.Err != nil || !r.Gone(a.Info.ServerID()) {
			kept[name] = a
		}
	}
	return kept
}

// Info returns the info of a replica that knows about a cell what the roster has.
func (r *Roster) Info(id, cellID string) Info {
	return Info{ID: id, CellID: cellID, Members: r.Members, ConfigIndex: r.Index, Applied: r.Index}
}

// Learn returns the roster after the cards of members. One of them may know a
// later configuration, if the members changed while this replica was away.
// Members are matched by name, because a member may have another directory by
// now.
func (r *Roster) Learn(cellID string, answers map[string]Answer) *Roster {
	vouching := map[string]Answer{}
	for name, a := range answers {
		if a.Err == nil && r.has(a.Info.ID) {
			vouching[name] = a
		}
	}
	latest, ok := newest(vouching, cellID)
	if !ok || latest.ConfigIndex == 0 || latest.ConfigIndex < r.Index {
		return r
	}
	return r.Note(latest.ConfigIndex, latest.Members, latest.Removed)
}
