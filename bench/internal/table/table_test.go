package table

import (
	"strings"
	"testing"
)

func TestColumnsAreAlignedAndMissingCellsStayEmpty(t *testing.T) {
	t.Parallel()
	x := New("keys", "rate")
	x.Add(1, "24.9")
	x.Add("1 000")
	var text, page strings.Builder
	if err := x.Write(&text); err != nil {
		t.Fatal(err)
	}
	if err := x.Markdown(&page); err != nil {
		t.Fatal(err)
	}
	if want := "keys   rate\n1      24.9\n1 000  \n"; text.String() != want {
		t.Errorf("text:\n%s\nwant:\n%s", text.String(), want)
	}
	if want := "| keys  | rate |\n| ----- | ---- |\n| 1     | 24.9 |\n| 1 000 |      |\n"; page.String() != want {
		t.Errorf("page:\n%s\nwant:\n%s", page.String(), want)
	}
}
