package state

// Names lists the names of all operations.
func Names() []string {
	var all []string
	for k := range operations {
		if Kind(k).known() {
			all = append(all, Kind(k).String())
		}
	}
	return all
}

// NewLevel moves an operation to a level that no release has yet, and returns a
// function that undoes this.
func NewLevel(op Operation) (undo func()) {
	r := &operations[op.kind()]
	was := r.level
	r.level = Level + 1
	return func() { r.level = was }
}
