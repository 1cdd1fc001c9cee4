package master

import (
	"slices"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// TestLateCopies: a removal or a replacement names the directory that the
// member had at that time. It is refused once the member has another one, or is
// about to. A change that was made already has no effect.
func TestLateCopies(t *testing.T) {
	old := founder("r2")
	replace := func(by, inPlaceOf string) func(*testing.T, *Master) error {
		return func(t *testing.T, m *Master) error {
			return second(m.ReplaceMember(t.Context(), &Caller{}, &lockapi.ReplaceMember{ID: "r2", ReplaceMemberRequest: lockapi.ReplaceMemberRequest{Directory: by, InPlaceOf: inPlaceOf}}))
		}
	}
	remove := func(directory string) func(*testing.T, *Master) error {
		return func(t *testing.T, m *Master) error {
			return second(m.RemoveMember(t.Context(), &Caller{}, &lockapi.RemoveMember{ID: "r2", RemoveMemberRequest: lockapi.RemoveMemberRequest{Directory: directory}}))
		}
	}
	type calls = []func(*testing.T, *Master) error
	for name, tc := range map[string]struct {
		before calls
		late   func(*testing.T, *Master) error
		want   lockapi.Code // empty: success
		left   []string     // directories of r2 that are left
	}{
		"removal behind a replacement":      {calls{replace(newDirectory, old)}, remove(old), lockapi.CodeConflict, []string{old, newDirectory}},
		"removal in time":                   {nil, remove(old), "", nil},
		"removal while being replaced":      {calls{replace(newDirectory, old)}, remove(newDirectory), "", nil},
		"removal of whichever":              {calls{replace(newDirectory, old)}, remove(""), "", nil},
		"replacement behind another":        {calls{replace(earlier, old), replace(newDirectory, earlier)}, replace(earlier, old), lockapi.CodeConflict, []string{old, newDirectory}},
		"replacement by whichever":          {calls{replace(newDirectory, old)}, replace(earlier, ""), "", []string{old, earlier}},
		"replacement once more":             {calls{replace(newDirectory, old)}, replace(newDirectory, old), "", []string{old, newDirectory}},
		"taking back":                       {calls{replace(newDirectory, old)}, replace(old, newDirectory), "", []string{old}},
		"taking back once more":             {calls{replace(newDirectory, old), replace(old, newDirectory)}, replace(old, newDirectory), "", []string{old}},
		"taking back behind another":        {calls{replace(earlier, old), replace(newDirectory, earlier)}, replace(old, earlier), lockapi.CodeConflict, []string{old, newDirectory}},
		"replacement behind a taking back":  {calls{replace(earlier, old), replace(old, earlier), replace(newDirectory, old)}, replace(earlier, old), lockapi.CodeConflict, []string{old, newDirectory}},
		"replacement of another than it is": {nil, replace(newDirectory, earlier), lockapi.CodeConflict, []string{old}},
	} {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
				m := c.office("r1").master
				for _, call := range tc.before {
					must(t, call(t, m))
					pass(time.Second)
				}
				if err := tc.late(t, m); tc.want != "" {
					code(t, err, tc.want)
				} else if err != nil {
					t.Error(err)
				}
				pass(time.Second)
				c.set(func(f *fakeConf) {
					var left []string
					for _, s := range f.members {
						if s.ID == "r2" {
							left = append(left, s.Directory)
						}
					}
					if !slices.Equal(left, tc.left) {
						t.Errorf("r2 has %q, want %q; after %q", left, tc.left, f.changes)
					}
				})
			})
		})
	}
}
