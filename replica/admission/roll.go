package admission

import "slices"

// Roll is what a replica knows of the cell's members. It is immutable.
//
// A certificate names a replica and not its directory: the key of a replica that
// was removed opens connections for any directory of that name. So a name
// without any directory in the configuration is removed as a whole.
type Roll struct {
	Index   uint64   `json:"index"`             // of the latest configuration that is known to be committed; 0 for none
	Members []string `json:"members,omitempty"` // its server ids
	// Removed are the server ids that an earlier configuration had and this one has
	// not, and the names that have no directory left. The last one removed is last.
	Removed []string `json:"removed,omitempty"`
}

// maxRemoved bounds Removed: the list is on the card, whose frame is bounded.
const maxRemoved = 256

// Lists reports whether a server is a member.
func (r *Roll) Lists(server string) bool { return slices.Contains(r.Members, server) }

// Gone reports whether a server was removed, and is not a member again.
func (r *Roll) Gone(server string) bool {
	name, _ := Split(server)
	return !r.Lists(server) && (slices.Contains(r.Removed, server) || slices.Contains(r.Removed, name))
}

// Note returns the roll after a configuration that was committed at an index, and
// servers that another roll has as removed. Configurations may come in any order:
// a server that an earlier one lists and the latest does not was removed between
// them.
func (r *Roll) Note(index uint64, members, removed []string) *Roll {
	next := &Roll{Index: r.Index, Members: r.Members, Removed: slices.Clone(r.Removed)}
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

// remove adds a server and its name to those removed, as far as they are none of
// the members'.
func (r *Roll) remove(server string) {
	name, _ := Split(server)
	for _, id := range []string{server, name} {
		if !r.has(id) && !slices.Contains(r.Removed, id) {
			r.Removed = append(r.Removed, id)
		}
	}
}

// has reports whether a server id, or a name, is a member's.
func (r *Roll) has(id string) bool {
	return slices.ContainsFunc(r.Members, func(m string) bool {
		name, _ := Split(m)
		return m == id || name == id
	})
}

// Without returns the answers but for those of replicas that were removed: such a
// replica could have a member end, or its directory quarantined.
func (r *Roll) Without(answers map[string]Answer) map[string]Answer {
	kept := map[string]Answer{}
	for name, a := range answers {
		if a.Err != nil || !r.Gone(a.Card.ServerID()) {
			kept[name] = a
		}
	}
	return kept
}

// Card returns the card of a replica that knows of a cell what the roll has.
func (r *Roll) Card(id, cellID string) Card {
	return Card{ID: id, CellID: cellID, Members: r.Members, ConfigIndex: r.Index, Applied: r.Index}
}

// Learn returns the roll after the cards of members. One of them may know a later
// configuration: this replica may have been away while the members changed. Names
// count: a member may have another directory by now.
func (r *Roll) Learn(cellID string, answers map[string]Answer) *Roll {
	vouching := map[string]Answer{}
	for name, a := range answers {
		if a.Err == nil && r.has(a.Card.ID) {
			vouching[name] = a
		}
	}
	latest, ok := newest(vouching, cellID)
	if !ok || latest.ConfigIndex == 0 || latest.ConfigIndex < r.Index {
		return r
	}
	return r.Note(latest.ConfigIndex, latest.Members, latest.Removed)
}
