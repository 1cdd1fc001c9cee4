package work

import (
	"fmt"
	"time"
)

// writePause is the shortest pause of a writer after a round. It keeps a
// session's writes in an epoch below the number of answers that the cell
// remembers of it. So a late duplicate of any write is recognized.
const writePause = 120 * time.Millisecond

// desk is the files that an epoch's clients write. Transactions name left,
// right and the locks both and shared together.
type desk struct {
	note, counter, member string
	queue                 string // without the number
	guarded, lock         string // a file, and the lock under which it is written
	left, right, both     string
	shared                string // a lock that transactions mostly share
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

// files returns the files with fixed names.
func (d *desk) files() []string {
	return []string{d.note, d.counter, d.member, d.guarded, d.left, d.right}
}

// pen makes contents. No two are equal, so that a content identifies its write.
type pen struct {
	author string
	texts  int
}

func (p *pen) text() []byte {
	p.texts++
	return fmt.Appendf(nil, "%s, %d", p.author, p.texts)
}
