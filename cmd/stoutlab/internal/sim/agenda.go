package sim

import "container/heap"

type event struct {
	at     Time
	what   Action // Received, TimedOut, Suspected, Crashed, Restarted
	to     int
	timer  int // a timer's name, or the process that a detector suspects
	epoch  int // of a timer: it counts only if it was not reset since
	around int // of a message: its direction around the ring, or 0
	chain  int // causal depth at which it happens
	clock  int // Lamport time of its sending
	id     int // the message's number
	past   []int
	m      Message
}

// near is how far ahead the agenda sorts by bucket; a power of two.
const near = 256

// agenda holds future events. Events at the same time come in the order in
// which they were added, timers after all others. Nearly all events are a few
// units ahead: they go into a bucket for their time, which costs an append. A
// heap holds the others until they are near.
type agenda struct {
	now     Time
	len     int
	buckets [near]bucket
	inNear  int // events in buckets
	far     farHeap
	added   int
}

type bucket struct {
	events, timers         []event
	nextEvent, nextTimeout int
}

func (a *agenda) add(e event) {
	a.len++
	if e.at-a.now < near {
		a.sort(e)
		return
	}
	a.added++
	heap.Push(&a.far, farEvent{e, a.added})
}

// sort puts a near event into its bucket.
func (a *agenda) sort(e event) {
	a.inNear++
	a.buckets[e.at%near].add(e)
}

func (b *bucket) add(e event) {
	if e.what == TimedOut {
		b.timers = append(b.timers, e)
	} else {
		b.events = append(b.events, e)
	}
}

// next removes and returns the next event. The agenda must not be empty.
func (a *agenda) next() event {
	a.len--
	for {
		b := &a.buckets[a.now%near]
		if b.nextEvent < len(b.events) {
			b.nextEvent++
			a.inNear--
			return b.events[b.nextEvent-1]
		}
		if b.nextTimeout < len(b.timers) {
			b.nextTimeout++
			a.inNear--
			return b.timers[b.nextTimeout-1]
		}
		*b = bucket{events: b.events[:0], timers: b.timers[:0]}
		a.advance()
	}
}

// advance moves to the next unit of time, or to the next event if that is far,
// and moves newly near events into buckets.
func (a *agenda) advance() {
	a.now++
	if a.inNear == 0 {
		a.now = a.far[0].at
	}
	for len(a.far) > 0 && a.far[0].at-a.now < near {
		a.sort(heap.Pop(&a.far).(farEvent).event)
	}
}

// all calls f for every future event, in no order.
func (a *agenda) all(f func(event)) {
	for i := range a.buckets {
		b := &a.buckets[i]
		for _, e := range b.events[b.nextEvent:] {
			f(e)
		}
		for _, e := range b.timers[b.nextTimeout:] {
			f(e)
		}
	}
	for _, e := range a.far {
		f(e.event)
	}
}

type farEvent struct {
	event
	seq int
}

type farHeap []farEvent

func (h farHeap) Len() int { return len(h) }
func (h farHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h farHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *farHeap) Push(x any)   { *h = append(*h, x.(farEvent)) }
func (h *farHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}
