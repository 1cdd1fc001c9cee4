package draw

import (
	"bytes"
	"fmt"
	"html"
	"math"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
)

// The dimensions of a drawing, in pixels.
const (
	left, right, top = 70, 40, 76
	rowHeight        = 58
	maxWidth         = 2600
	maxLabels        = 90 // with more arrows, only the tooltips have the texts
)

// colours are the colours of message kinds, distinguishable with colour
// blindness (Okabe, Ito).
var colours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9"}

func colour(kind int) string { return colours[kind%len(colours)] }

// scale returns the width of a unit of time.
func (d *diagram) scale() float64 {
	return math.Max(4, math.Min(84, (maxWidth-left-right)/float64(d.end)))
}

// SVG draws the run as a space–time diagram: time goes to the right, each
// process is a line, each message an arrow.
func SVG(r *lab.Result) []byte {
	d := layout(r)
	unit := d.scale()
	x := func(t sim.Time) float64 { return left + unit*float64(t) }
	y := func(row int) float64 { return top + rowHeight*float64(row) }
	height := int(y(len(d.rows)-1)) + 92
	var b, legend bytes.Buffer
	legendEnd := d.legend(&legend, r, float64(height)-16)
	width := max(640, int(x(d.end))+right, legendEnd)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" `+
		`font-family="system-ui, sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", html.EscapeString(d.title))
	fmt.Fprintf(&b, `<text x="16" y="24" font-size="16" font-weight="600">%s</text>`+"\n", html.EscapeString(d.title))
	fmt.Fprintf(&b, `<text x="16" y="44" fill="#555">%s</text>`+"\n", html.EscapeString(Verdict(r)))
	d.heads(&b)
	d.axis(&b, x, float64(height))
	d.lines(&b, x, y)
	for _, s := range d.spans {
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="12" rx="3" fill="#F0E442" stroke="#B8860B"/>`+"\n",
			x(s.at), y(s.row)-6, math.Max(3, x(s.till)-x(s.at)))
	}
	for i, a := range d.arrows {
		d.arrow(&b, i, a, x, y)
	}
	d.drawMarks(&b, x, y)
	b.Write(legend.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// heads draws the tips of the arrows, one for each colour.
func (d *diagram) heads(b *bytes.Buffer) {
	b.WriteString("<defs>")
	for i, c := range colours {
		fmt.Fprintf(b, `<marker id="head%d" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" `+
			`orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="%s"/></marker>`, i, c)
	}
	b.WriteString("</defs>\n")
}

func (d *diagram) axis(b *bytes.Buffer, x func(sim.Time) float64, height float64) {
	step := sim.Time(1)
	for x(step)-x(0) < 40 {
		step *= 2
	}
	for t := sim.Time(0); t <= d.end; t += step {
		fmt.Fprintf(b, `<path d="M%.1f %d V%.1f" stroke="#eee"/><text x="%.1f" y="%.1f" fill="#888" text-anchor="middle">%d</text>`+"\n",
			x(t), top-16, height-48, x(t), height-34, t)
	}
}

func (d *diagram) lines(b *bytes.Buffer, x func(sim.Time) float64, y func(int) float64) {
	for i, r := range d.rows {
		end := x(d.end) + 16
		if r.dead >= 0 {
			end = x(r.dead)
		}
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end" font-weight="600">%s</text>`, left-16, y(i)+4, r.label)
		fmt.Fprintf(b, `<path d="M%.1f %.1f H%.1f" stroke="#333" stroke-width="1.5"/>`+"\n", x(0), y(i), end)
		if r.dead >= 0 {
			fmt.Fprintf(b, `<path d="M%.1f %.1f H%.1f" stroke="#bbb" stroke-dasharray="2 5"/>`+"\n", end, y(i), x(d.end)+16)
		}
	}
}

func (d *diagram) arrow(b *bytes.Buffer, i int, a arrow, x func(sim.Time) float64, y func(int) float64) {
	shift := float64(a.beside) // so that no arrow hides another
	x1, y1, x2, y2 := x(a.at)+6*shift, y(a.from), x(a.till)+6*shift, y(a.to)
	dash, tip := "", fmt.Sprintf(` marker-end="url(#head%d)"`, a.kind%len(colours))
	if a.lost {
		dash = ` stroke-dasharray="5 4"`
	}
	tooltip := html.EscapeString(fmt.Sprintf("%s from %s to %s, sent at %d", a.text, d.rows[a.from].label, d.rows[a.to].label, a.at))
	if a.from == a.to {
		fmt.Fprintf(b, `<path d="M%.1f %.1f c 4 -20 %.1f -20 %.1f 0" fill="none" stroke="%s"%s%s><title>%s</title></path>`+"\n",
			x1, y1, math.Max(10, x2-x1), math.Max(8, x2-x1), colour(a.kind), dash, tip, tooltip)
		return
	}
	fmt.Fprintf(b, `<path d="M%.1f %.1f L%.1f %.1f" fill="none" stroke="%s" stroke-width="1.4"%s%s><title>%s</title></path>`+"\n",
		x1, y1, x2, y2, colour(a.kind), dash, tip, tooltip)
	if len(d.arrows) > maxLabels || !d.labelled(i) {
		return
	}
	// The text is placed at a third of the way, so that texts of crossing
	// arrows stay apart; the texts of long arrows alternate between other
	// places.
	part := 0.36
	if dy := math.Abs(y2 - y1); dy > 1.5*rowHeight {
		part = 0.14 + 0.09*float64(i%4)
	}
	tx, ty := x1+(x2-x1)*part, y1+(y2-y1)*part
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" font-size="10" fill="%s" stroke="white" stroke-width="3" paint-order="stroke">%s</text>`+"\n",
		tx+5, ty+1+11*shift, colour(a.kind), html.EscapeString(a.text))
}

// labelled reports whether an arrow has a text: in a multicast only the
// shortest does.
func (d *diagram) labelled(i int) bool {
	a := d.arrows[i]
	length := func(a arrow) int { return max(a.to-a.from, a.from-a.to) }
	for j, b := range d.arrows {
		same := b.from == a.from && b.at == a.at && b.text == a.text && b.from != b.to
		if same && (length(b) < length(a) || length(b) == length(a) && j < i) {
			return false
		}
	}
	return true
}

func (d *diagram) drawMarks(b *bytes.Buffer, x func(sim.Time) float64, y func(int) float64) {
	for _, m := range d.marks {
		cx, cy := x(m.at), y(m.row)
		switch m.what {
		case sim.Crashed:
			fmt.Fprintf(b, `<path d="M%.1f %.1f l12 12 m-12 0 l12 -12" stroke="#c00" stroke-width="3"><title>crashes at %d</title></path>`+"\n", cx-6, cy-6, m.at)
		case sim.Elected:
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="5" fill="#222"/><text x="%.1f" y="%.1f" font-size="11" font-weight="600" `+
				`stroke="white" stroke-width="3" paint-order="stroke">%s</text>`+"\n", cx, cy, cx+2, cy-9, crown(m.text))
		case sim.Suspected:
			fmt.Fprintf(b, `<text x="%.1f" y="%.1f" fill="#c00" font-weight="700">!<title>%s</title></text>`+"\n", cx, cy+18, html.EscapeString(m.text))
		case sim.TimedOut:
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="4" fill="white" stroke="#c60" stroke-width="2"><title>a time-out, at %d</title></circle>`+"\n", cx, cy, m.at)
		case sim.Cut:
			fmt.Fprintf(b, `<text x="%.1f" y="%.1f" fill="#c00">cut off</text>`+"\n", cx+4, cy-8)
		case sim.Restarted:
			fmt.Fprintf(b, `<text x="%.1f" y="%.1f" fill="#090">back</text>`+"\n", cx+4, cy-8)
		case sim.Want:
			fmt.Fprintf(b, `<path d="M%.1f %.1f v-9" stroke="#666" stroke-width="2"><title>asks at %d</title></path>`+"\n", cx, cy, m.at)
		}
	}
}

// crown returns the mark of a belief: "leader 4" as "★4".
func crown(text string) string {
	var id int
	if _, err := fmt.Sscanf(text, "leader %d", &id); err != nil || id < 0 {
		return "no leader"
	}
	return fmt.Sprintf("★%d", id)
}

// legend draws the meaning of colours and signs, and returns its lower end.
func (d *diagram) legend(b *bytes.Buffer, r *lab.Result, y float64) int {
	x := float64(left)
	item := func(sign, text string) {
		fmt.Fprintf(b, `<g transform="translate(%.0f %.0f)">%s<text x="30" y="4" fill="#444">%s</text></g>`+"\n", x, y, sign, text)
		x += 48 + 6.6*float64(len(text))
	}
	for i, k := range r.Plan.Algorithm.Kinds {
		item(fmt.Sprintf(`<path d="M0 0 H22" stroke="%s" stroke-width="1.6" marker-end="url(#head%d)"/>`, colour(i), i%len(colours)), k.Name)
	}
	seen := map[sim.Action]bool{}
	for _, m := range d.marks {
		seen[m.what] = true
	}
	if seen[sim.TimedOut] {
		item(`<circle cx="12" cy="0" r="4" fill="white" stroke="#c60" stroke-width="2"/>`, "a time-out")
	}
	if seen[sim.Elected] {
		item(`<circle cx="12" cy="0" r="5" fill="#222"/>`, "believes in a leader")
	}
	if len(d.spans) > 0 {
		item(`<rect x="0" y="-6" width="22" height="12" rx="3" fill="#F0E442" stroke="#B8860B"/>`, d.spanName(seen))
	}
	if d.cut {
		item("", "the rest is left out")
	}
	return int(x)
}

func (d *diagram) spanName(seen map[sim.Action]bool) string {
	if seen[sim.Enter] {
		return "in the critical section"
	}
	return "in office"
}
