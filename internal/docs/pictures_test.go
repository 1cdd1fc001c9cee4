package docs

import (
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// TestPictures: each drawing is well-formed, has a description, loads no other file
// and is part of a page.
func TestPictures(t *testing.T) {
	all := pages(t)
	for _, name := range glob(t, "docs/img/*.svg") {
		said := map[string]string{}
		in := ""
		for d := xml.NewDecoder(strings.NewReader(read(t, name))); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch token := token.(type) {
			case xml.StartElement:
				in = token.Name.Local
				for _, a := range token.Attr {
					if a.Name.Local == "href" || a.Name.Local == "src" {
						t.Errorf("%s loads %s", name, a.Value)
					}
				}
			case xml.CharData:
				said[in] += strings.TrimSpace(string(token))
			}
		}
		if said["title"] == "" || len(said["desc"]) < 50 {
			t.Errorf("%s has no description in words", name)
		}
		shown := false
		for _, p := range all {
			shown = shown || strings.Contains(p.text, "img/"+filepath.Base(name)+")")
		}
		if !shown {
			t.Errorf("%s is not part of any page", name)
		}
	}
}
