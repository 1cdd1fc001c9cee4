// Package sweep counts the costs of runs of many sizes, and fits a curve to
// them.
package sweep

import (
	"bytes"
	"fmt"
	"math"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
)

// Point is one run's count.
type Point struct {
	N          int
	Seed       uint64
	Messages   int
	Turnaround int
	Time       int64
	Min, Max   int // the book's, or 0
	Good       bool
}

// Runs makes a run of every size with every seed, from the options' seed on.
// Without a given order, rings are random if the ring 0, 1, … n−1 is the best
// case: otherwise the curve would show the best case.
func Runs(o lab.Options, sizes []int, seeds int) ([]Point, error) {
	var all []Point
	first := o.Seed
	for _, n := range sizes {
		for seed := range seeds {
			o.N, o.Seed = n, first+uint64(seed)
			p, err := lab.Prepare(o)
			if err == nil && o.Order == "" && p.IsBest() {
				random := o
				random.Order = "random"
				p, err = lab.Prepare(random)
			}
			if err != nil {
				return nil, err
			}
			r := p.Run()
			point := Point{N: n, Seed: o.Seed, Messages: r.Messages.Total, Turnaround: r.Turnaround,
				Time: r.VirtualTime, Good: r.Good()}
			if r.Expected != nil {
				point.Min, point.Max = r.Expected.Messages.Min, r.Expected.Messages.Max
			}
			all = append(all, point)
		}
	}
	return all, nil
}

// CSV returns the points as a table.
func CSV(algorithm string, points []Point) []byte {
	var b bytes.Buffer
	b.WriteString("algorithm,n,seed,messages,turnaround,virtual_time,book_min,book_max,good\n")
	for _, p := range points {
		low, high := "", ""
		if p.Max > 0 {
			low, high = fmt.Sprint(p.Min), fmt.Sprint(p.Max)
		}
		fmt.Fprintf(&b, "%s,%d,%d,%d,%d,%d,%s,%s,%t\n",
			algorithm, p.N, p.Seed, p.Messages, p.Turnaround, p.Time, low, high, p.Good)
	}
	return b.Bytes()
}

// Fit is messages ≈ Factor · Curve(n).
type Fit struct {
	Name   string
	Factor float64
	Error  float64 // the root of the mean square of the relative error
	Curve  func(n float64) float64
}

var curves = []Fit{
	{Name: "√n", Curve: math.Sqrt},
	{Name: "n", Curve: func(n float64) float64 { return n }},
	{Name: "n·√n", Curve: func(n float64) float64 { return n * math.Sqrt(n) }},
	{Name: "n·log₂ n", Curve: func(n float64) float64 { return n * math.Log2(max(n, 2)) }},
	{Name: "n²", Curve: func(n float64) float64 { return n * n }},
}

// Best returns the curve that fits best. Each point has the same weight for any
// n: errors are relative to the measured count.
func Best(points []Point) Fit {
	best := Fit{Error: math.Inf(1)}
	for _, f := range curves {
		// The factor that minimizes Σ (factor·curve/measured − 1)².
		var a, b float64
		for _, p := range points {
			if ratio := f.Curve(float64(p.N)) / float64(p.Messages); p.Messages > 0 {
				a, b = a+ratio, b+ratio*ratio
			}
		}
		if b == 0 {
			continue
		}
		f.Factor = a / b
		for _, p := range points {
			if p.Messages > 0 {
				e := f.Factor*f.Curve(float64(p.N))/float64(p.Messages) - 1
				f.Error += e * e
			}
		}
		f.Error = math.Sqrt(f.Error / float64(len(points)))
		if f.Error < best.Error {
			best = f
		}
	}
	return best
}
