package client

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// Filter selects the events that Watch yields. With paths or prefixes, Watch
// yields only events of matching nodes; without any, events of all nodes. It
// always yields lockapi.EventMasterChanged.
type Filter func(*filter)

type filter struct {
	paths, prefixes []string
	types           []lockapi.EventType
	contents        bool
}

// OnPath makes Watch yield the events of these nodes. The watch also yields
// lockapi.EventMasterChanged, which has no path.
func OnPath(paths ...string) Filter {
	return func(f *filter) { f.paths = append(f.paths, paths...) }
}

// OnPrefix makes Watch yield the events of nodes with paths that begin with one
// of these plain strings. The watch also yields lockapi.EventMasterChanged,
// which has no path.
func OnPrefix(prefixes ...string) Filter {
	return func(f *filter) { f.prefixes = append(f.prefixes, prefixes...) }
}

// OfType makes Watch yield only events of these types.
func OfType(types ...lockapi.EventType) Filter {
	return func(f *filter) { f.types = append(f.types, types...) }
}

// EventContents makes Watch yield the new content with a file's change. It may
// be missing if the file has changed again since.
func EventContents() Filter { return func(f *filter) { f.contents = true } }

func makeFilter(filters []Filter) (out filter, err error) {
	for _, set := range filters {
		set(&out)
	}
	for _, path := range out.paths {
		if err := lockapi.ValidatePath(path); err != nil {
			return out, err
		}
	}
	for _, prefix := range out.prefixes {
		if !strings.HasPrefix(prefix, "/") {
			return out, lockapi.Invalid("prefix", "prefix %q does not begin with %q", lockapi.Clip(prefix), "/")
		}
	}
	return out, nil
}

// everywhere reports whether the filter selects events of all nodes.
func (f *filter) everywhere() bool { return len(f.paths)+len(f.prefixes) == 0 }

// matches reports whether the filter selects events of a node.
func (f *filter) matches(path string) bool {
	return f.everywhere() || slices.Contains(f.paths, path) || f.begins(path)
}

// begins reports whether a path or prefix begins with one of the prefixes.
func (f *filter) begins(path string) bool {
	return slices.ContainsFunc(f.prefixes, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// covers reports whether the filter selects events of all nodes that o selects.
func (f *filter) covers(o *filter) bool {
	switch {
	case f.everywhere():
		return true
	case o.everywhere():
		return false
	}
	return !slices.ContainsFunc(o.paths, func(path string) bool { return !f.matches(path) }) &&
		!slices.ContainsFunc(o.prefixes, func(prefix string) bool { return !f.begins(prefix) })
}

// clone returns a copy to which paths and prefixes may be added.
func (f *filter) clone() filter {
	out := *f
	out.paths, out.prefixes = slices.Clip(out.paths), slices.Clip(out.prefixes)
	return out
}

// add makes the filter select also the events of the nodes that o selects.
func (f *filter) add(o *filter) {
	switch {
	case f.covers(o):
	case o.everywhere():
		f.paths, f.prefixes = nil, nil
	default:
		f.paths = append(f.paths, slices.DeleteFunc(slices.Clone(o.paths), f.matches)...)
		f.prefixes = append(f.prefixes, slices.DeleteFunc(slices.Clone(o.prefixes), f.begins)...)
	}
}

// query returns the query for the events after a revision.
func (f *filter) query(after uint64) url.Values {
	q := url.Values{"after": {strconv.FormatUint(after, 10)}}
	if len(f.paths) > 0 {
		q["path"] = f.paths
	}
	if len(f.prefixes) > 0 {
		q["prefix"] = f.prefixes
	}
	if len(f.types) > 0 {
		names := make([]string, len(f.types))
		for i, t := range f.types {
			names[i] = string(t)
		}
		q.Set("types", strings.Join(names, ","))
	}
	if f.contents {
		q.Set("content", "true")
	}
	return q
}

// passes reports whether an event was requested.
func (f *filter) passes(e *lockapi.CellEvent) bool {
	if e.Type == lockapi.EventMasterChanged {
		return true
	}
	if len(f.types) > 0 && !slices.Contains(f.types, e.Type) {
		return false
	}
	return f.matches(e.Path)
}
