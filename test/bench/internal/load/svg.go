package load

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// panel is one diagram: lines over a logarithmic x axis, because numbers of
// sessions are tried in powers; and a linear y axis from 0, so that heights
// compare.
type panel struct {
	title, axis string
	lines       []*line
}

// line is one series; a dashed one has the colour of the plain one of its name.
type line struct {
	name   string
	dashed bool
	points []point
}

// point is one measurement; the spread is drawn as a bar.
type point struct {
	x float64
	y Spread
}

func (p *panel) add(name string, dashed bool, at point) {
	for _, l := range p.lines {
		if l.name == name && l.dashed == dashed {
			l.points = append(l.points, at)
			return
		}
	}
	p.lines = append(p.lines, &line{name: name, dashed: dashed, points: []point{at}})
}

// Sizes in pixels.
const (
	panelWidth, panelHeight = 560, 400
	left, right, top        = 70, 20, 40
	bottom                  = 50
	legendLine              = 18
)

// palette is Okabe and Ito's, which the colour-blind can tell apart, and a
// grey.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"}

// canvas writes SVG elements and keeps the first error.
type canvas struct {
	w   *bufio.Writer
	err error
}

func (c *canvas) printf(format string, args ...any) {
	if c.err == nil {
		_, c.err = fmt.Fprintf(c.w, format, args...)
	}
}

func (c *canvas) text(x, y float64, anchor, words string) {
	var escaped strings.Builder
	// EscapeText fails only where its writer does, and this one never does.
	_ = xml.EscapeText(&escaped, []byte(words))
	c.printf(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, escaped.String())
}

func (c *canvas) stroke(x1, y1, x2, y2 float64, colour string) {
	c.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, colour)
}

// drawPanels draws the panels side by side, each with its legend below it.
func drawPanels(w io.Writer, panels []*panel) error {
	c := &canvas{w: bufio.NewWriter(w)}
	most := 0
	for _, p := range panels {
		most = max(most, len(p.names()))
	}
	width, height := panelWidth*len(panels), panelHeight+legendLine*(most+1)
	c.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	c.printf(`<rect width="100%%" height="100%%" fill="white"/>` + "\n")
	for i, p := range panels {
		c.printf(`<g transform="translate(%d 0)">`+"\n", i*panelWidth)
		p.draw(c)
		c.printf("</g>\n")
	}
	c.printf("</svg>\n")
	if c.err == nil {
		c.err = c.w.Flush()
	}
	return c.err
}

// names are the series, each once, in order.
func (p *panel) names() (names []string) {
	for _, l := range p.lines {
		if !slices.Contains(names, l.name) {
			names = append(names, l.name)
		}
	}
	return names
}

func (p *panel) draw(c *canvas) {
	s := p.scale()
	c.text(left, top-16, "start", p.title)
	c.text((left+panelWidth-right)/2, panelHeight-10, "middle", p.axis)
	for _, v := range s.yTicks {
		c.stroke(left, s.y(v), panelWidth-right, s.y(v), "#dddddd")
		c.text(left-8, s.y(v)+4, "end", strconv.FormatFloat(v, 'f', -1, 64))
	}
	for _, v := range s.xTicks {
		c.stroke(s.x(v), panelHeight-bottom, s.x(v), panelHeight-bottom+5, "black")
		c.text(s.x(v), panelHeight-bottom+18, "middle", strconv.FormatFloat(v, 'f', -1, 64))
	}
	c.stroke(left, panelHeight-bottom, panelWidth-right, panelHeight-bottom, "black")
	c.stroke(left, top, left, panelHeight-bottom, "black")
	names := p.names()
	for _, l := range p.lines {
		colour := palette[slices.Index(names, l.name)%len(palette)]
		l.draw(c, s, colour)
		if !l.dashed {
			y := float64(panelHeight + legendLine*(slices.Index(names, l.name)+1))
			c.stroke(left, y-4, left+24, y-4, colour)
			c.text(left+32, y, "start", seriesName(l))
		}
	}
}

func (l *line) draw(c *canvas, s scale, colour string) {
	var path []string
	for _, p := range l.points {
		x, y := s.x(p.x), s.y(p.y.Median)
		path = append(path, fmt.Sprintf("%.1f,%.1f", x, y))
		c.printf(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x, y, colour)
		c.stroke(x, s.y(p.y.Min), x, s.y(p.y.Max), colour)
	}
	dash := ""
	if l.dashed {
		dash = ` stroke-dasharray="5 4"`
	}
	c.printf(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n", strings.Join(path, " "), colour, dash)
}

// scale turns values into pixels.
type scale struct {
	xLow, xHigh    float64 // logarithms to base 2
	yHigh          float64
	xTicks, yTicks []float64
}

func (p *panel) scale() scale {
	s := scale{xLow: math.Inf(1), xHigh: math.Inf(-1)}
	for _, l := range p.lines {
		for _, at := range l.points {
			s.xLow, s.xHigh = min(s.xLow, math.Log2(at.x)), max(s.xHigh, math.Log2(at.x))
			s.yHigh = max(s.yHigh, at.y.Max)
			if !slices.Contains(s.xTicks, at.x) {
				s.xTicks = append(s.xTicks, at.x)
			}
		}
	}
	if s.xLow == s.xHigh { // one number alone stands in the middle
		s.xLow, s.xHigh = s.xLow-1, s.xHigh+1
	}
	s.yTicks = ticks(s.yHigh)
	s.yHigh = s.yTicks[len(s.yTicks)-1]
	return s
}

func (s scale) x(v float64) float64 {
	const margin = 20 // so that no point lies on the axis
	return left + margin + (math.Log2(v)-s.xLow)/(s.xHigh-s.xLow)*(panelWidth-left-right-2*margin)
}

func (s scale) y(v float64) float64 {
	return panelHeight - bottom - v/s.yHigh*(panelHeight-top-bottom)
}

// ticks are round numbers from 0 to the first that is not below high: steps of
// 1, 2 or 5 times a power of ten, four to ten of them.
func ticks(high float64) []float64 {
	if high <= 0 || math.IsInf(high, 0) || math.IsNaN(high) {
		high = 1
	}
	power := math.Pow(10, math.Floor(math.Log10(high))-1)
	step := 10 * power
	for _, f := range []float64{1, 2, 5} {
		if high/(f*power) <= 10 {
			step = f * power
			break
		}
	}
	var out []float64
	for i := 0; ; i++ {
		// Dividing by a whole number keeps 0.3 from being 0.30000000000000004.
		v := math.Round(float64(i)*step/power) * power
		if power < 1 {
			v = math.Round(float64(i)*step/power) / math.Round(1/power)
		}
		out = append(out, v)
		if v >= high {
			return out
		}
	}
}
