package sim

import (
	"fmt"
	"math/bits"
	"strings"
)

// Time is virtual time. One unit is the latency of a message if that is fixed.
type Time = int64

// Kind is a kind of message: an index into the Config's Kinds.
type Kind uint8

// KindInfo describes a kind of message of an algorithm.
type KindInfo struct {
	Name    string
	Carries string // names of its numbers, from: "id by round hops"
}

// Message is a message between processes. The classical algorithms exchange a
// few small numbers, so a message is a plain value, which costs no allocation.
// Each algorithm defines which of the four numbers it uses, and for what.
type Message struct {
	Kind     Kind
	From, To int // set by the network
	ID       int // the identifier, or attribute, that it is about
	By       int // the initiator of this run, or a direction
	Round    int // a round, phase or logical time
	Hops     int // hops so far
	Era      int // of the sender, see Port.InEra; set by the network
}

// bits returns the size of a message of this kind among n processes: the kind
// itself, and each of its numbers in as few bits as n values need.
func (k KindInfo) bits(kinds, n int) int {
	number := max(1, bits.Len(uint(n-1)))
	return bits.Len(uint(max(0, kinds-1))) + len(strings.Fields(k.Carries))*number
}

// text returns the message as a drawing shows it: "election(3)".
func (k KindInfo) text(m Message) string {
	var args []string
	for _, field := range strings.Fields(k.Carries) {
		switch field {
		case "id":
			args = append(args, fmt.Sprint(m.ID))
		case "by":
			args = append(args, fmt.Sprintf("by %d", m.By))
		case "round":
			args = append(args, fmt.Sprintf("@%d", m.Round))
		case "hops":
			args = append(args, fmt.Sprintf("+%d", m.Hops))
		}
	}
	if len(args) == 0 {
		return k.Name
	}
	return k.Name + "(" + strings.Join(args, " ") + ")"
}
