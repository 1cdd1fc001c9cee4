package sweep

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
)

// TestFit: the worst rings of lcr fit n², of hs n log n, of one initiator n.
func TestFit(t *testing.T) {
	sizes := []int{8, 16, 32, 64, 128, 256}
	for _, c := range []struct {
		o    lab.Options
		want string
	}{
		{lab.Options{Algorithm: "ring"}, "n"},
		{lab.Options{Algorithm: "lcr", Order: "worst"}, "n²"},
		{lab.Options{Algorithm: "lcr", Order: "random"}, "n·log₂ n"},
		{lab.Options{Algorithm: "hs", Order: "worst"}, "n·log₂ n"},
		{lab.Options{Algorithm: "itai-rodeh"}, "n·log₂ n"},
		{lab.Options{Algorithm: "maekawa", Entries: "0:1"}, "√n"},
	} {
		points, err := Runs(c.o, sizes, 3)
		if err != nil {
			t.Fatal(err)
		}
		if fit := Best(points); fit.Name != c.want {
			t.Errorf("%+v fits %.2f·%s ± %.2f, want %s", c.o, fit.Factor, fit.Name, fit.Error, c.want)
		}
	}
}

func TestOutputs(t *testing.T) {
	points, err := Runs(lab.Options{Algorithm: "hs"}, []int{4, 8, 16}, 2)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(CSV("hs", points)))).ReadAll()
	if err != nil || len(rows) != 1+6 || rows[1][0] != "hs" || rows[1][1] != "4" {
		t.Errorf("%v, %v", rows, err)
	}
	svg := string(Plot("Messages", []Series{{"hs", points}}))
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "%!") {
		t.Error(svg)
	}
}
