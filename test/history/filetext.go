package history

import (
	"fmt"
	"strings"
)

// results describes the results of a call, for porcupine's picture.
func (a *Attempt) results() (text string) {
	for op, r := range a.Files.executed() {
		switch {
		case r.File != nil:
			text += fmt.Sprintf("; %s r%d i%d g%d %s", r.File.Path, r.File.Revision, r.File.Instance, r.File.Generation, short(r.File.SHA256))
		case r.Deleted != nil:
			text += fmt.Sprintf("; deleted %v r%d", r.Deleted.Deleted, r.Deleted.Revision)
		case r.Grant != nil:
			text += fmt.Sprintf("; %s #%d", r.Grant.Path, r.Grant.Token)
		case r.Released != nil:
			text += fmt.Sprintf("; released %v", r.Released.Released)
		case op.Get != nil:
			text += "; no " + op.Get.Path
		}
	}
	for _, f := range a.Files.Listed {
		text += fmt.Sprintf("; %s r%d", f.Path, f.Revision)
	}
	if a.Kind == DeleteBelow {
		text += fmt.Sprintf("; deleted %d", a.Files.Deleted)
	}
	if r := a.Files.Result; r != nil {
		text += fmt.Sprintf("; %v as of r%d", r.Succeeded, r.Revision)
	}
	return text
}

// String describes a state in porcupine's picture.
func (g *group) String() string {
	var text strings.Builder
	for _, f := range g.files {
		fmt.Fprintf(&text, "%s r%d i%d g%d %s %s; ", f.path, f.revision, f.instance, f.generation, short(f.sum), short(f.session))
	}
	for _, h := range g.holds {
		fmt.Fprintf(&text, "%s held by %s #%d; ", h.path, short(pair(h.session, h.handle)), h.token)
	}
	fmt.Fprintf(&text, "revision %d, %d sessions ended", g.last, len(g.ended))
	return text.String()
}
