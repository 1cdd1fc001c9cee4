package events

import "testing"

// TestWatchesAreForgotten: a closed watch leaves no trace, with any other
// watches present.
func TestWatchesAreForgotten(t *testing.T) {
	r := New(10, 10, 0)
	stays := r.Watch(NewFilter(nil, []string{"/stays/"}, nil))
	for range 2 {
		for _, prefix := range []string{"/", "/a/", "/b/", "/longer/", "/other0/"} {
			twice := r.Watch(NewFilter([]string{"/path"}, []string{prefix}, nil))
			r.Watch(NewFilter(nil, []string{prefix, "/c/"}, nil)).Close()
			twice.Close()
			twice.Close()
		}
		r.Watch(NewFilter(nil, nil, nil)).Close()
	}
	a := &r.watches
	if len(a.every) != 1 || len(a.unnamed) != 0 || len(a.paths) != 0 || len(a.prefixes) != 1 || len(a.lengths) != 1 || a.lengths[0].n != len("/stays/") {
		t.Errorf("kept is %+v", a)
	}
	if stays.Close(); len(a.every)+len(a.prefixes)+len(a.lengths) > 0 {
		t.Errorf("kept is %+v", a)
	}
}
