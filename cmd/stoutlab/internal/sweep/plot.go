package sweep

import (
	"bytes"
	"fmt"
	"math"
)

// Series is the points of one algorithm.
type Series struct {
	Name   string
	Points []Point
}

var colours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9"}

const (
	width, height         = 820, 520
	left, right, top, low = 80, 190, 50, 470
)

// Plot draws the counts of one or more algorithms over n, on logarithmic
// scales: a power of n is a straight line. The book's range is shaded, and the
// best fit is drawn through the points.
func Plot(title string, all []Series) []byte {
	s := scaleOf(all)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" `+
		`font-family="system-ui, sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="26" font-size="16" font-weight="600">%s</text>`+"\n", left, title)
	s.axes(&b)
	for i, series := range all {
		s.band(&b, series.Points, colours[i%len(colours)])
	}
	for i, series := range all {
		s.series(&b, i, series)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

type scale struct{ n0, n1, m0, m1 float64 }

func scaleOf(all []Series) scale {
	s := scale{math.Inf(1), 2, math.Inf(1), 2}
	for _, series := range all {
		for _, p := range series.Points {
			s.n0, s.n1 = math.Min(s.n0, float64(p.N)), math.Max(s.n1, float64(p.N))
			for _, m := range []int{p.Messages, p.Min, p.Max} {
				if m > 0 {
					s.m0, s.m1 = math.Min(s.m0, float64(m)), math.Max(s.m1, float64(m))
				}
			}
		}
	}
	s.n0, s.m0 = math.Max(1, math.Min(s.n0, s.n1/2)), math.Max(1, math.Min(s.m0, s.m1/2))
	return s
}

func (s scale) x(n float64) float64 {
	return left + (width-right-left)*(math.Log(n)-math.Log(s.n0))/(math.Log(s.n1)-math.Log(s.n0))
}

func (s scale) y(m float64) float64 {
	return low - (low-top)*(math.Log(m)-math.Log(s.m0))/(math.Log(s.m1)-math.Log(s.m0))
}

func (s scale) axes(b *bytes.Buffer) {
	for n := math.Pow(2, math.Ceil(math.Log2(s.n0))); n <= s.n1; n *= 2 {
		fmt.Fprintf(b, `<path d="M%.1f %d V%d" stroke="#eee"/><text x="%.1f" y="%d" text-anchor="middle" fill="#666">%.0f</text>`+"\n", s.x(n), top, low, s.x(n), low+18, n)
	}
	for m := math.Pow(10, math.Ceil(math.Log10(s.m0))); m <= s.m1; m *= 10 {
		fmt.Fprintf(b, `<path d="M%d %.1f H%d" stroke="#eee"/><text x="%d" y="%.1f" text-anchor="end" fill="#666">%.0f</text>`+"\n", left, s.y(m), width-right, left-8, s.y(m)+4, m)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" fill="#444">processes</text>`, (left+width-right)/2, low+38)
	fmt.Fprintf(b, `<text x="20" y="%d" text-anchor="middle" fill="#444" transform="rotate(-90 20 %d)">messages</text>`+"\n", (top+low)/2, (top+low)/2)
}

// band shades the book's range.
func (s scale) band(b *bytes.Buffer, points []Point, colour string) {
	var upper, lower string
	last := 0
	for _, p := range points {
		if p.Max == 0 || p.N == last {
			continue
		}
		last = p.N
		upper += fmt.Sprintf("%.1f,%.1f ", s.x(float64(p.N)), s.y(float64(p.Max)))
		lower = fmt.Sprintf("%.1f,%.1f ", s.x(float64(p.N)), s.y(math.Max(1, float64(p.Min)))) + lower
	}
	if upper != "" {
		fmt.Fprintf(b, `<polygon points="%s%s" fill="%s" fill-opacity="0.08" stroke="%[3]s" stroke-opacity="0.35" stroke-dasharray="4 3"/>`+"\n", upper, lower, colour)
	}
}

func (s scale) series(b *bytes.Buffer, i int, series Series) {
	colour := colours[i%len(colours)]
	for _, p := range series.Points {
		if p.Messages > 0 {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s" fill-opacity="0.6"/>`+"\n", s.x(float64(p.N)), s.y(float64(p.Messages)), colour)
		}
	}
	fit := Best(series.Points)
	if fit.Curve == nil {
		return
	}
	path := ""
	for step := 0; step <= 40; step++ {
		n := s.n0 * math.Pow(s.n1/s.n0, float64(step)/40)
		if m := fit.Factor * fit.Curve(n); m >= s.m0 && m <= s.m1 {
			path += fmt.Sprintf("%.1f,%.1f ", s.x(n), s.y(m))
		}
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", path, colour)
	y := top + 20 + 56*i
	fmt.Fprintf(b, `<circle cx="%d" cy="%d" r="4" fill="%s"/><text x="%d" y="%d" font-weight="600">%s</text>`, width-right+24, y-4, colour, width-right+34, y, series.Name)
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="#444">≈ %.2f · %s</text><text x="%d" y="%d" fill="#888">± %.0f %%; book dashed</text>`+"\n",
		width-right+34, y+16, fit.Factor, fit.Name, width-right+34, y+32, 100*fit.Error)
}
