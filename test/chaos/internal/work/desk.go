package work

import (
	"fmt"
	"time"
)

// writePause is how long a writer rests after a round, at least: a session's writes of an
// epoch stay below the number of answers that the cell remembers of it, so that
// a late duplicate of any is known as one.
const writePause = 120 * time.Millisecond

// desk is the files that an epoch's clients write. Those that transactions name
// together are left, right and the locks both and shared.
type desk struct {
	note, counter, member string
	queue                 string // before the numbers
	guarded, lock         string // a file, and the lock under which it is written
	left, right, both     string
	shared                string // a lock that transactions share, for the most part
	pair                  string // the directory of left and right, listed and emptied
}

func deskOf(epoch int) desk {
	at := func(name string) string { return fmt.Sprintf("/chaos/%d/files/%s", epoch, name) }
	return desk{
		note: at("note"), counter: at("counter"), member: at("member"), queue: at("queue/job-"),
		guarded: at("guarded"), lock: at("lock"), left: at("pair/left"), right: at("pair/right"), both: at("pair/both"),
		shared: at("pair/shared"), pair: at("pair/"),
	}
}

// files are those that have a name from the beginning.
func (d *desk) files() []string {
	return []string{d.note, d.counter, d.member, d.guarded, d.left, d.right}
}

// pen makes contents. No two are the same, so that what is seen of one tells
// which write it is of.
type pen struct {
	author string
	texts  int
}

func (p *pen) text() []byte {
	p.texts++
	return fmt.Appendf(nil, "%s, %d", p.author, p.texts)
}
