package elect

// set is a set of process ids, as bits: a plain value; equal sets print the
// same text.
type set []uint64

func (s set) has(id int) bool { return id>>6 < len(s) && s[id>>6]&(1<<(id&63)) != 0 }

func (s *set) add(id int) {
	for id>>6 >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[id>>6] |= 1 << (id & 63)
}
