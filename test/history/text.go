package history

import (
	"fmt"
	"strings"
)

var stepNames = map[stepKind]string{
	grant: "granted", confirm: "holds", refuse: "refused", place: "queued", leave: "left the queue", revoke: "revoked",
	release: "released", releaseNone: "nothing to release", gone: "session gone",
	read: "read", valid: "valid", invalid: "not valid", closing: "session closed", expiry: "session expired",
	delayOver: "lock-delay over", end: "the end",
}

// String describes a step in porcupine's picture.
func (s *step) String() string {
	text := stepNames[s.kind]
	if s.attempt != nil {
		_, text, _ = strings.Cut(s.attempt.String(), " ")
	}
	if s.maybe {
		text += "?"
	}
	if s.attempt != nil && s.attempt.Files != nil {
		text += s.attempt.results()
	}
	if s.who != "" {
		text += " " + short(s.who)
	} else if s.session != "" {
		text += " " + short(s.session)
	}
	if s.mode != "" {
		text += " " + string(s.mode)
	}
	if s.token != 0 {
		text += fmt.Sprintf(" #%d", s.token)
	}
	if s.kind == read {
		text += " " + s.state
		for _, h := range s.holders {
			text += fmt.Sprintf(" %s#%d", short(h.who), h.token)
		}
	}
	return text
}

// String describes a state in porcupine's picture.
func (l *lock) String() string {
	var text strings.Builder
	for _, h := range l.holds {
		fmt.Fprintf(&text, "%s #%d %s; ", short(h.who), h.token, h.mode)
	}
	if len(l.holds) == 0 {
		text.WriteString("free; ")
	}
	for _, who := range l.delayed {
		fmt.Fprintf(&text, "delayed by %s; ", short(who))
	}
	for _, who := range l.placed {
		fmt.Fprintf(&text, "queued %s; ", short(who))
	}
	fmt.Fprintf(&text, "last token %d, %d sessions ended", l.last, len(l.ended))
	return text.String()
}

// short shortens the ids that replicas and clients make up.
func short(who string) string {
	session, handle, found := strings.Cut(who, "/")
	if len(session) > 6 {
		session = session[:6]
	}
	if !found {
		return session
	}
	return session + "/" + handle
}
